// The sequences of a simulated engine, drawn by the sampler with a fixed hot set or one that a controller
// adapts.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "hot_sets/controller.h"
#include "measurement/bench_rows.h"
#include "sampler/decide.h"

namespace croupier::bench {

// The rows of a trace: its parts are used one after another.
struct Trace {
    std::vector<const measurement::BenchRows*> parts;
    std::uint64_t draws = 0;

    const measurement::BenchRows& at(std::uint64_t draw) const {
        return *parts[static_cast<std::size_t>(draw * parts.size() / draws)];
    }
};

class Served {
  public:
    // With a controller, or with a fixed hot set.
    Served(const Trace& trace, const proto::SamplingParams& params, std::uint32_t choice);
    Served(const Trace& trace, const proto::SamplingParams& params,
           const hot_sets::HotController& controller);

    void serve(std::uint64_t draws);

    std::uint64_t served() const { return served_; }
    double draws_per_second() const { return static_cast<double>(served_) * 1e9 / static_cast<double>(ns_); }
    std::uint32_t present() const { return controller_ ? controller_->present() : choice_; }
    double share_of(std::uint32_t choice) const {
        return static_cast<double>(costs_[choice].draws) / static_cast<double>(served_);
    }
    std::uint64_t moves() const { return controller_ ? controller_->moves() : 0; }

  private:
    static constexpr std::uint32_t kSequences = 64;
    // The supervisor evaluates the costs only every so many steps.
    static constexpr std::uint64_t kDrawsBetweenLooks = 256;

    struct Sequence {
        std::uint32_t choice = 0;
        std::uint32_t left = 0;  // draws until it ends and is replaced by another
    };

    void admit(Sequence& sequence);
    std::uint64_t draw(const Sequence& sequence);

    const Trace& trace_;
    proto::SamplingParams params_;
    std::uint32_t choice_ = 0;
    std::optional<hot_sets::HotController> controller_;
    sampler::Workspace workspace_;
    sampler::SequenceState state_;
    std::array<Sequence, kSequences> sequences_;
    std::array<hot_sets::HotCostSoFar, proto::kHotChoices> costs_ = {};
    std::uint64_t admitted_ = 0;
    std::uint64_t served_ = 0;
    std::uint64_t ns_ = 0;
    std::uint64_t sink_ = 0;
};

}  // namespace croupier::bench
