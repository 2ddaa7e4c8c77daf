// Which hot set new sequences are given, by what draws with each were seen to cost. Now and then some new
// sequences try another size, near the present one first, then further off: costs need not have one valley
// only. Where draws cost less, that size becomes the present one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "proto/hot_set.h"

namespace croupier::hot_sets {

struct HotBounds {
    std::uint32_t least = 1;  // choices of proto/hot_set.h
    std::uint32_t most = proto::kHotChoices - 1;
    double hysteresis = 0.03;  // a neighbour must cost so much less, as a share
};

// Since the session began.
struct HotCostSoFar {
    std::uint64_t draws = 0;
    std::uint64_t ns = 0;
};

class HotController {
  public:
    HotController(const HotBounds& bounds, std::uint32_t first);

    using Costs = std::span<const HotCostSoFar, proto::kHotChoices>;
    void observe(Costs costs);
    // Of most new sequences, and of those that try something: the same while nothing is tried.
    std::uint32_t present() const { return present_; }
    std::uint32_t tried() const { return tried_.value_or(present_); }
    std::uint64_t moves() const { return moves_; }

  private:
    // The logarithms of what the tried choice cost, as a multiple of the present one, over the same periods:
    // whatever slows the machine slows both.
    struct Ratios {
        std::uint32_t count = 0;
        double sum = 0.0;
        double squares = 0.0;

        void add(double ratio);
        double mean() const { return sum / count; }
        double error() const;  // the mean's standard error
    };

    void wait(Costs costs);
    void look_everywhere();
    std::uint32_t next_to_try();
    void begin_trial(Costs costs);
    void go_on_with_trial(Costs costs);
    void end_trial(bool better, Costs costs);
    void begin_period(Costs costs);

    HotBounds bounds_;
    std::uint32_t present_;
    std::optional<std::uint32_t> tried_;
    std::size_t offsets_;  // so many of them are tried in a round
    std::size_t next_offset_ = 0;
    std::uint32_t patience_ = 1;  // blocks of draws between two trials
    std::uint32_t waited_ = 0;
    double cost_when_settled_ = 0.0;  // 0: not known
    std::uint64_t moves_ = 0;
    HotCostSoFar present_began_;
    HotCostSoFar tried_began_;
    Ratios ratios_;
};

}  // namespace croupier::hot_sets
