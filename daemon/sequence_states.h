// What a sampler's threads have derived from the token logs of one session: by thread, because two columns
// that a broken client gave the same sequence may be decided at once.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "proto/sampling.h"
#include "sampler/sequence_state.h"

namespace croupier::daemon {

class SequenceStates {
  public:
    SequenceStates(std::uint32_t vocab, std::uint32_t max_length, std::uint32_t sequences,
                   std::uint32_t threads);

    // The state of the sequence in this slot; begun anew when the slot holds another, or other parameters
    // or breakers.
    sampler::SequenceState& of(std::size_t thread, std::uint32_t slot, std::uint64_t uid,
                               const proto::SamplingParams& params, sampler::TokenLists dry_breakers);

    // Whether of() would not begin anew: what the log has gained since costs little to follow.
    bool knows(std::size_t thread, std::uint32_t slot, std::uint64_t uid) const {
        return slot < sequences_ && tracked_[thread * sequences_ + slot].uid == uid;
    }

  private:
    struct Tracked {
        std::uint64_t uid = 0;
        proto::SamplingParams params;
        std::vector<std::int32_t> breakers;
        std::unique_ptr<sampler::SequenceState> state;
    };

    std::uint32_t vocab_;
    std::uint32_t max_length_;
    std::uint32_t sequences_;
    std::vector<Tracked> tracked_;  // [thread][slot]
};

}  // namespace croupier::daemon
