#include "sampler/hot_controller.h"

#include <algorithm>

namespace croupier::sampler {
namespace {

constexpr std::uint64_t kBlockDraws = 256;
constexpr std::uint32_t kMostPatience = 64;
// Draws that cost so much more or less than when the last trial ended are of other rows.
constexpr double kShift = 0.1;

}  // namespace

bool HotController::Cost::take(const HotCostSoFar& so_far) {
    // A session whose counters were begun anew is counted anew.
    if (so_far.draws < block_began_.draws) block_began_ = {};
    const std::uint64_t draws = so_far.draws - block_began_.draws;
    if (draws < kBlockDraws) return false;
    mean_[next_] = static_cast<double>(so_far.ns - block_began_.ns) / static_cast<double>(draws);
    next_ = (next_ + 1) % kKept;
    means_ = std::min(means_ + 1, kKept);
    block_began_ = so_far;
    return true;
}

double HotController::Cost::undisturbed() const {
    std::array<double, kKept> sorted = mean_;
    std::nth_element(sorted.begin(), sorted.begin() + 1, sorted.end());
    return sorted[1];
}

HotController::HotController(const HotBounds& bounds, std::uint32_t first)
    : bounds_(bounds), present_(std::clamp(first, bounds.least, bounds.most)) {}

void HotController::observe(std::span<const HotCostSoFar, proto::kHotChoices> costs) {
    bool block_ended = false;
    for (std::size_t choice = 0; choice < costs.size(); ++choice) {
        const bool ended = costs_[choice].take(costs[choice]);
        block_ended = block_ended || (ended && choice == present_);
    }
    if (tried_) {
        judge_trial();
    } else if (block_ended) {
        if (costs_[present_].known()) notice_shift();
        if (++waited_ >= patience_ && costs_[present_].known()) begin_trial();
    }
}

void HotController::begin_trial() {
    waited_ = 0;
    if (bounds_.least == bounds_.most) return;
    if (present_ == (upwards_ ? bounds_.most : bounds_.least)) upwards_ = !upwards_;
    tried_ = upwards_ ? present_ + 1 : present_ - 1;
    costs_[*tried_].forget();
}

void HotController::judge_trial() {
    Cost& tried = costs_[*tried_];
    if (!tried.known()) return;
    if (tried.undisturbed() < costs_[present_].undisturbed() * (1.0 - bounds_.hysteresis)) {
        present_ = *tried_;
        ++moves_;
        patience_ = 1;
        turned_ = false;
    } else {
        upwards_ = !upwards_;
        // Both neighbours are dearer: there is no hurry to look again.
        if (turned_) patience_ = std::min(patience_ * 2, kMostPatience);
        turned_ = !turned_;
    }
    tried_.reset();
    cost_when_settled_ = costs_[present_].undisturbed();
}

void HotController::notice_shift() {
    const double cost = costs_[present_].undisturbed();
    const bool shifted =
        cost > cost_when_settled_ * (1.0 + kShift) || cost < cost_when_settled_ * (1.0 - kShift);
    if (shifted && cost_when_settled_ > 0.0) {
        patience_ = 1;
        cost_when_settled_ = cost;
    }
}

}  // namespace croupier::sampler
