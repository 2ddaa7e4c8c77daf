// Schedules kills at random points of the run's progress, so that all of them happen before its end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/keyed_hash.h"
#include "sim/options.h"

namespace croupier::sim {

class Chaos {
  public:
    explicit Chaos(const SimOptions& options);

    ChaosTarget target() const { return target_; }
    std::uint32_t kills() const { return done_; }
    bool is_due(double progress) const { return done_ < moments_.size() && progress >= moments_[done_]; }
    void count_kill() { ++done_; }

    // Sleeps for a random part of a step, then spins for a random time, so that a kill can hit any
    // instruction.
    void await_random_moment(std::uint64_t usual_step_ns);
    std::uint32_t pick(std::uint32_t choices) { return random_.below(choices); }
    // A running sampler process that was not killed before; nothing while all restart.
    std::optional<pid_t> pick_sampler(const std::string& shm_dir, const std::string& instance);

  private:
    ChaosTarget target_;
    KeyedStream random_;
    std::vector<double> moments_;
    std::uint32_t done_ = 0;
    std::set<pid_t> killed_;
};

}  // namespace croupier::sim
