// When something is killed: at random points of the run's progress, so that every kill comes before its end.
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
    bool due(double progress) const { return done_ < moments_.size() && progress >= moments_[done_]; }
    bool pending() const { return done_ < moments_.size(); }
    void count_kill() { ++done_; }

    // Lets part of a step pass, then part of a microsecond-scale span: no instruction is spared.
    void await_random_moment(std::uint64_t usual_step_ns);
    std::uint32_t pick(std::uint32_t choices) { return random_.below(choices); }
    // A sampler process that runs and was not killed before; nothing while all restart.
    std::optional<pid_t> pick_sampler(const std::string& shm_dir, const std::string& instance);

  private:
    ChaosTarget target_;
    KeyedStream random_;
    std::vector<double> moments_;
    std::uint32_t done_ = 0;
    std::set<pid_t> killed_;
};

}  // namespace croupier::sim
