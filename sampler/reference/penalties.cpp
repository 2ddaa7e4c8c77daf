#include <algorithm>

#include "sampler/reference/steps.h"

namespace croupier::sampler::reference {
namespace {

struct Seen {
    bool repeated = false;    // counts for the repetition penalty
    std::uint32_t times = 0;  // counts for the frequency and presence penalties
};

// By token id, as far as the largest that was seen.
std::vector<Seen> seen_tokens(const Request& request) {
    std::vector<Seen> seen;
    const auto at = [&seen](std::int32_t id) -> Seen& {
        const auto index = static_cast<std::size_t>(id);
        if (index >= seen.size()) seen.resize(index + 1);
        return seen[index];
    };
    if (request.params->penalty_last_n < 0) {
        for (const std::int32_t id : request.prompt) at(id).repeated = true;
        for (const std::int32_t id : request.output) at(id).repeated = true;
        for (const std::int32_t id : request.output) ++at(id).times;
        return seen;
    }
    const auto window = static_cast<std::size_t>(request.params->penalty_last_n);
    for (const std::int32_t id : newest_tokens(request, window)) {
        at(id).repeated = true;
        ++at(id).times;
    }
    return seen;
}

}  // namespace

std::vector<std::int32_t> newest_tokens(const Request& request, std::size_t count) {
    std::vector<std::int32_t> history(request.prompt.begin(), request.prompt.end());
    history.insert(history.end(), request.output.begin(), request.output.end());
    const std::size_t old = history.size() - std::min(count, history.size());
    history.erase(history.begin(), history.begin() + static_cast<std::ptrdiff_t>(old));
    return history;
}

std::string apply_penalties(const Request& request, Left& left) {
    const proto::SamplingParams& params = *request.params;
    const std::vector<Seen> seen = seen_tokens(request);
    std::size_t changed = 0;
    for (Token& token : left.tokens) {
        if (static_cast<std::size_t>(token.id) >= seen.size()) continue;
        const Seen& history = seen[static_cast<std::size_t>(token.id)];
        if (!history.repeated) continue;
        double& x = token.value;
        x = x > 0.0 ? x / params.repetition_penalty : x * params.repetition_penalty;
        x -= params.frequency_penalty * static_cast<double>(history.times);
        if (history.times > 0) x -= params.presence_penalty;
        ++changed;
    }
    return sentence("changed ", changed, " logits");
}

}  // namespace croupier::sampler::reference
