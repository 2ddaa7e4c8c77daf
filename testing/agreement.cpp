#include "testing/agreement.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <vector>

#include "sampler/row_mass.h"

namespace croupier::sampler::test {
namespace {

bool same(double a, double b) {
    return a == b || (std::isnan(a) && std::isnan(b));
}

bool agree(float a, float b, Logprobs judged) {
    if (judged == Logprobs::within_error) return logprobs_agree(a, b);
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

std::string difference(const proto::Decision& ours, const proto::Decision& expected, Logprobs judged) {
    std::ostringstream text;
    text.precision(9);
    if (ours.error != expected.error) {
        text << "error " << static_cast<int>(ours.error) << " for " << static_cast<int>(expected.error);
    } else if (ours.token != expected.token) {
        text << "token " << ours.token << " for " << expected.token;
    } else if (ours.flags != expected.flags) {
        text << "flags " << ours.flags << " for " << expected.flags;
    } else if (ours.position != expected.position) {
        text << "position " << ours.position << " for " << expected.position;
    } else if (!agree(ours.logprob, expected.logprob, judged)) {
        text << "log-prob " << ours.logprob << " for " << expected.logprob;
    }
    return text.str();
}

std::string difference(const proto::Feedback& ours, const proto::Feedback& expected) {
    if (same(ours.level, expected.level) && same(ours.weight, expected.weight)) return {};
    std::ostringstream text;
    text.precision(17);
    text << "feedback " << ours.level << " and " << ours.weight << " for " << expected.level << " and "
         << expected.weight;
    return text.str();
}

std::string difference(const std::vector<Survivor>& ours, const std::vector<Survivor>& expected) {
    std::ostringstream text;
    text.precision(17);
    for (std::size_t i = 0; i < ours.size() && i < expected.size(); ++i) {
        if (ours[i].token == expected[i].token && same(ours[i].probability, expected[i].probability))
            continue;
        text << "survivor " << i << " is " << ours[i].token << " with " << ours[i].probability << " for "
             << expected[i].token << " with " << expected[i].probability;
        return text.str();
    }
    if (ours.size() != expected.size()) {
        text << ours.size() << " survivors for " << expected.size();
    }
    return text.str();
}

std::string difference(const std::vector<RankedLogprob>& ours, const std::vector<RankedLogprob>& expected,
                       Logprobs judged) {
    std::ostringstream text;
    text.precision(9);
    for (std::size_t i = 0; i < ours.size() && i < expected.size(); ++i) {
        const RankedLogprob& a = ours[i];
        const RankedLogprob& b = expected[i];
        if (a.token == b.token && a.rank == b.rank && agree(a.logprob, b.logprob, judged)) continue;
        text << "log-prob " << i << " is " << a.logprob << " of " << a.token << ", rank " << a.rank
             << ", for " << b.logprob << " of " << b.token << ", rank " << b.rank;
        return text.str();
    }
    if (ours.size() != expected.size()) {
        text << ours.size() << " log-probs for " << expected.size();
    }
    return text.str();
}

}  // namespace

reference::Outcome outcome_of(const proto::Decision& decision, const Answer& answer) {
    reference::Outcome outcome;
    outcome.decision = decision;
    outcome.feedback = answer.feedback;
    outcome.support.assign(answer.support.begin(), answer.support.end());
    outcome.support_total = answer.support_total;
    outcome.logprobs.assign(answer.logprobs.begin(), answer.logprobs.end());
    return outcome;
}

std::string difference(const reference::Outcome& ours, const reference::Outcome& expected, Logprobs judged) {
    std::string first = difference(ours.decision, expected.decision, judged);
    if (first.empty()) first = difference(ours.feedback, expected.feedback);
    if (first.empty()) first = difference(ours.support, expected.support);
    if (first.empty() && ours.support_total != expected.support_total)
        first = "support_total is " + std::to_string(ours.support_total) + ", expected " +
                std::to_string(expected.support_total);
    if (first.empty()) first = difference(ours.logprobs, expected.logprobs, judged);
    return first;
}

}  // namespace croupier::sampler::test
