// Which hot set new sequences are given, by what draws with each were seen to cost. It climbs: now and then
// some sequences try a neighbour of the present size, and where draws cost less there, it becomes the present
// one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "proto/hot_set.h"

namespace croupier::sampler {

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

    void observe(std::span<const HotCostSoFar, proto::kHotChoices> costs);
    // Of most new sequences, and of those that try something: the same while nothing is tried.
    std::uint32_t present() const { return present_; }
    std::uint32_t tried() const { return tried_.value_or(present_); }
    std::uint64_t moves() const { return moves_; }

  private:
    // A few means of blocks of draws. Interruptions only add: the second least of the means has none.
    class Cost {
      public:
        bool take(const HotCostSoFar& so_far);
        void forget() { means_ = 0; }
        double undisturbed() const;

        bool known() const { return means_ == kKept; }

      private:
        static constexpr std::size_t kKept = 5;
        HotCostSoFar block_began_;
        std::array<double, kKept> mean_ = {};
        std::size_t means_ = 0;
        std::size_t next_ = 0;
    };

    void begin_trial();
    void judge_trial();
    void notice_shift();

    HotBounds bounds_;
    std::uint32_t present_;
    std::optional<std::uint32_t> tried_;
    bool upwards_ = true;
    bool turned_ = false;
    std::uint32_t patience_ = 1;  // blocks of the present choice between two trials
    std::uint32_t waited_ = 0;
    double cost_when_settled_ = 0.0;
    std::uint64_t moves_ = 0;
    std::array<Cost, proto::kHotChoices> costs_;
};

}  // namespace croupier::sampler
