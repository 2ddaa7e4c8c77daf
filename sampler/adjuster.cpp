#include "sampler/adjuster.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sampler/formulas.h"
#include "sampler/params.h"

namespace croupier::sampler {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

// A bad word's last id is banned when the output ends with the rest of it.
bool completes(std::span<const std::int32_t> word, std::span<const std::int32_t> output) {
    const std::size_t rest = word.size() - 1;
    return rest <= output.size() &&
           std::equal(word.begin(), word.end() - 1, output.end() - static_cast<std::ptrdiff_t>(rest));
}

}  // namespace

Adjuster::Adjuster(const proto::SamplingParams& params, const Request& request, SequenceState& state,
                   Workspace& workspace)
    : params_(params),
      request_(request),
      state_(state),
      mask_(request.mask),
      special_(workspace.special),
      banned_(workspace.banned),
      bias_(request.bias, workspace),
      repeats_(takes_step(params, proto::Step::dry) ? state.repeats()
                                                    : std::span<const SequenceState::Repeat>{}),
      bans_stops_(request.output.size() < params.min_tokens),
      has_penalties_(takes_step(params, proto::Step::penalties)),
      has_special_(!request.bias.empty() || !request.bad_words.empty() || !request.allowed_ids.empty() ||
                   (bans_stops_ && (params.eos_token_id >= 0 || !request.stop_ids.empty())) ||
                   !repeats_.empty()),
      repetition_{1.0, params.repetition_penalty},
      presence_{0.0, params.presence_penalty} {
    visit_special([this](std::uint32_t token) { special_[token / 64] |= std::uint64_t{1} << (token % 64); });
    ban();
}

Adjuster::~Adjuster() {
    visit_special([this](std::uint32_t token) { special_[token / 64] = banned_[token / 64] = 0; });
}

bool Adjuster::lowers_only(Adjustments on) const {
    return !on.penalties || !has_penalties_ ||
           (params_.repetition_penalty >= 1.0 && params_.frequency_penalty >= 0.0 &&
            params_.presence_penalty >= 0.0);
}

bool Adjuster::changes_nothing(Adjustments on) const {
    return mask_.empty() && !(on.rules && has_special_) && !(on.dry && !repeats_.empty()) &&
           !(on.penalties && has_penalties_);
}

bool Adjuster::has_raising_bias() const {
    return std::any_of(request_.bias.begin(), request_.bias.end(),
                       [](const proto::TokenBias& each) { return each.bias > 0.0F; });
}

void Adjuster::ban() {
    for_each_list(request_.bad_words, [this](std::span<const std::int32_t> word) {
        if (completes(word, request_.output)) ban(static_cast<std::uint32_t>(word.back()));
    });
    if (!bans_stops_) return;
    if (params_.eos_token_id >= 0) ban(static_cast<std::uint32_t>(params_.eos_token_id));
    for (const std::int32_t token : request_.stop_ids) ban(static_cast<std::uint32_t>(token));
}

double Adjuster::by_rules(std::uint32_t token, double value) const {
    return banned(token) ? kNothing : bias_.biased(token, value);
}

double Adjuster::by_repeat(std::uint32_t token, double value) const {
    const std::uint32_t length = state_.repeat_length(token);
    return length == 0 ? value : value - dry_penalty(params_, length);
}

}  // namespace croupier::sampler
