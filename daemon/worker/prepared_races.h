// The first arrivals of the races that a thread of a sampler will run, made while it waits for their logits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "proto/race.h"
#include "sampler/request.h"

namespace croupier::daemon {

class PreparedRaces {
  public:
    // Of a step whose columns follow: what the last one left may go now.
    void begin_step() { left_ = kMost; }
    // In place of the oldest. Without effect where the step has kMost of them already.
    void prepare(const proto::race::Key& key, std::uint32_t vocab);

    // Nothing in it: this race was not prepared.
    sampler::PreparedRace find(const proto::race::Key& key, std::uint32_t vocab) const;

    // Of a larger share the first ones: a vocabulary of 152k takes 9.5 KB each.
    static constexpr std::size_t kMost = 64;

  private:
    std::array<proto::race::Key, kMost> keys_{};
    std::array<std::vector<float>, kMost> ln_first_;
    std::size_t next_ = 0;
    std::size_t left_ = kMost;  // that this step may have
};

}  // namespace croupier::daemon
