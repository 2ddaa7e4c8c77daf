#include "hot_sets/controller.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace croupier::hot_sets {
namespace {

constexpr std::uint64_t kBlockDraws = 2048;
// Of either choice, in a trial's period. What a draw costs depends on its row far more than on the hot set.
constexpr std::uint64_t kPeriodDraws = 128;
constexpr std::uint32_t kLeastPeriods = 10;
constexpr std::uint32_t kMostPeriods = 64;
// In standard errors. A move must be sure, the more so as every period is looked after; what is given up
// wrongly is tried again, and costs less than a trial that goes on.
constexpr double kSure = 3.0;
constexpr double kSureEnough = 1.0;
// No period says more: some were interrupted.
constexpr double kLargestRatio = 0.7;
constexpr std::uint32_t kMostPatience = 256;
// From the present choice, in the order in which they are tried.
constexpr std::array<int, 6> kOffsets = {1, -1, 2, -2, 3, -3};
// The nearest ones, which cost little more to try. Those further off are tried again when costs have shifted.
constexpr std::size_t kNearOffsets = 2;
// Draws that cost so much more or less than after the last trial may be of other rows.
constexpr double kShift = 0.1;

HotCostSoFar since(const HotCostSoFar& began, const HotCostSoFar& now) {
    // A session whose counters were begun anew is counted anew.
    if (now.draws < began.draws || now.ns < began.ns) return now;
    return {now.draws - began.draws, now.ns - began.ns};
}

double mean_of(const HotCostSoFar& cost) {
    return static_cast<double>(cost.ns) / static_cast<double>(cost.draws);
}

}  // namespace

void HotController::Ratios::add(double ratio) {
    const double log = std::clamp(std::log(ratio), -kLargestRatio, kLargestRatio);
    ++count;
    sum += log;
    squares += log * log;
}

double HotController::Ratios::error() const {
    const double variance = (squares - sum * mean()) / (count - 1);
    return std::sqrt(std::max(variance, 0.0) / count);
}

HotController::HotController(const HotBounds& bounds, std::uint32_t first)
    : bounds_(bounds), present_(std::clamp(first, bounds.least, bounds.most)), offsets_(kOffsets.size()) {}

void HotController::observe(Costs costs) {
    tried_ ? go_on_with_trial(costs) : wait(costs);
}

void HotController::begin_period(Costs costs) {
    present_began_ = costs[present_];
    if (tried_) tried_began_ = costs[*tried_];
}

void HotController::wait(Costs costs) {
    const HotCostSoFar block = since(present_began_, costs[present_]);
    if (block.draws < kBlockDraws) return;
    const double cost = mean_of(block);
    const double settled = cost_when_settled_;
    const bool shifted = cost > settled * (1.0 + kShift) || cost < settled * (1.0 - kShift);
    if (settled > 0.0 && shifted) look_everywhere();
    if (settled <= 0.0 || shifted) cost_when_settled_ = cost;
    begin_period(costs);
    if (++waited_ >= patience_ && bounds_.least < bounds_.most) begin_trial(costs);
}

void HotController::look_everywhere() {
    patience_ = 1;
    offsets_ = kOffsets.size();
}

// After a round without a move there is less hurry to look again.
std::uint32_t HotController::next_to_try() {
    for (;;) {
        if (next_offset_ >= offsets_) {
            next_offset_ = 0;
            offsets_ = kNearOffsets;
            patience_ = std::min(patience_ * 4, kMostPatience);
        }
        const int choice = static_cast<int>(present_) + kOffsets[next_offset_++];
        if (choice < static_cast<int>(bounds_.least) || choice > static_cast<int>(bounds_.most)) continue;
        return static_cast<std::uint32_t>(choice);
    }
}

void HotController::begin_trial(Costs costs) {
    waited_ = 0;
    ratios_ = {};
    tried_ = next_to_try();
    begin_period(costs);
}

void HotController::go_on_with_trial(Costs costs) {
    const HotCostSoFar tried = since(tried_began_, costs[*tried_]);
    const HotCostSoFar present = since(present_began_, costs[present_]);
    if (std::min(tried.draws, present.draws) < kPeriodDraws) return;
    ratios_.add(mean_of(tried) / mean_of(present));
    begin_period(costs);
    if (ratios_.count < kLeastPeriods) return;
    const double wanted = std::log(1.0 - bounds_.hysteresis);
    const bool better = ratios_.mean() < wanted && ratios_.mean() + kSure * ratios_.error() < 0.0;
    const bool worse = ratios_.mean() - kSureEnough * ratios_.error() > wanted;
    if (better || worse || ratios_.count == kMostPeriods) end_trial(better, costs);
}

void HotController::end_trial(bool better, Costs costs) {
    if (better) {
        present_ = *tried_;
        ++moves_;
        look_everywhere();
        --next_offset_;  // the same way on
        cost_when_settled_ = 0.0;
    }
    tried_.reset();
    begin_period(costs);
}

}  // namespace croupier::hot_sets
