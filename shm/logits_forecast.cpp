#include "shm/logits_forecast.h"

#include <algorithm>

namespace croupier::shm {
namespace {

// What steps of one kind differ by, and what a sleep ends late by.
constexpr std::uint64_t kMarginNs = 100'000;
constexpr std::uint64_t kMarginShare = 16;
constexpr std::uint64_t margin_of(std::uint64_t interval) {
    return kMarginNs + interval / kMarginShare;
}

}  // namespace

void LogitsForecast::note(std::uint64_t step, std::uint64_t ready_ns) {
    if (ready_ns_ != 0 && step <= step_) return;
    const bool follows = ready_ns_ != 0 && step == step_ + 1 && ready_ns > ready_ns_;
    if (follows && ready_ns - ready_ns_ < longest_ns_) {
        passed_[known_++ % passed_.size()] = ready_ns - ready_ns_;
    }
    step_ = step;
    ready_ns_ = ready_ns;
}

// Around each of the last times from step to step: pipelines have two of them, in turn.
bool LogitsForecast::due(std::uint64_t now_ns) const {
    const std::uint64_t passed = now_ns - std::min(now_ns, ready_ns_);
    const auto of = known();
    return std::any_of(of.begin(), of.end(), [passed](std::uint64_t each) {
        const std::uint64_t margin = margin_of(each);
        return passed + margin >= each && passed < each + margin;
    });
}

std::uint64_t LogitsForecast::until_due(std::uint64_t now_ns) const {
    const std::uint64_t passed = now_ns - std::min(now_ns, ready_ns_);
    if (due(now_ns)) return 0;
    std::uint64_t least = 0;
    for (const std::uint64_t each : known()) {
        const std::uint64_t margin = margin_of(each);
        if (passed + margin >= each) continue;
        const std::uint64_t left = each - margin - passed;
        if (least == 0 || left < least) least = left;
    }
    return least;
}

LogitsForecast::Around LogitsForecast::around(std::uint64_t now_ns) const {
    const std::uint64_t passed = now_ns - std::min(now_ns, ready_ns_);
    Around around;
    for (const std::uint64_t each : known()) {
        if (each > passed) {
            around.until = std::min(around.until, each - passed);
        } else {
            around.since = std::min(around.since, passed - each);
        }
    }
    return around;
}

}  // namespace croupier::shm
