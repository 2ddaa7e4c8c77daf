#include "shm/logits_forecast.h"

#include <algorithm>

namespace croupier::shm {
namespace {

// What steps of one kind differ by, and what a sleep ends late by.
constexpr std::uint64_t kMarginNs = 100'000;
constexpr std::uint64_t kMarginShare = 16;
// Engines that idle between steps are not worth a spinning core.
constexpr std::uint64_t kLongestNs = 200'000'000;

}  // namespace

void LogitsForecast::note(std::uint64_t step, std::uint64_t ready_ns) {
    if (ready_ns_ != 0 && step <= step_) return;
    const bool follows = ready_ns_ != 0 && step == step_ + 1 && ready_ns > ready_ns_;
    if (follows && ready_ns - ready_ns_ < kLongestNs) {
        passed_[known_++ % passed_.size()] = ready_ns - ready_ns_;
    }
    step_ = step;
    ready_ns_ = ready_ns;
}

// From before the earliest to behind the latest of them. One that takes twice as long, a prompt's, is not
// waited for.
LogitsForecast::Window LogitsForecast::window() const {
    if (known_ == 0) return {};
    const auto* const end = passed_.begin() + std::min(known_, passed_.size());
    const auto [least, most] = std::minmax_element(passed_.begin(), end);
    const std::uint64_t margin = kMarginNs + *least / kMarginShare;
    return {ready_ns_ + *least - std::min(*least, margin), ready_ns_ + std::min(*most, 2 * *least) + margin};
}

bool LogitsForecast::due(std::uint64_t now_ns) const {
    const Window expected = window();
    return expected.begin <= now_ns && now_ns < expected.end;
}

std::uint64_t LogitsForecast::until_due(std::uint64_t now_ns) const {
    const Window expected = window();
    return now_ns < expected.begin ? expected.begin - now_ns : 0;
}

}  // namespace croupier::shm
