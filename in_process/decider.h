// The decision without a daemon: what stands behind the C ABI of croupier/decide.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sampler/decide.h"

namespace croupier::in_process {

class Decider {
  public:
    Decider(std::uint32_t vocab, std::uint32_t max_length)
        : max_length_(max_length), workspace_(vocab), state_(vocab, max_length) {}

    std::uint32_t vocab() const { return workspace_.vocab; }

    // `logits` are vocab() elements. What is answered beside the decision stays until the next call.
    proto::Decision decide(const void* logits, proto::Dtype dtype, sampler::Request request);
    const sampler::Answer& answer() const { return workspace_.answer(); }

  private:
    void bring_state_to(const sampler::Request& request);

    const std::uint32_t max_length_;
    sampler::Workspace workspace_;
    sampler::SequenceState state_;
    // What state_ was brought to: all of it is compared, because the state itself looks at the last tokens
    // only.
    bool begun_ = false;
    proto::SamplingParams params_;
    std::vector<std::int32_t> breakers_;
    std::vector<std::int32_t> prompt_;
    std::vector<std::int32_t> output_;
    alignas(64) std::array<std::byte, std::size_t{sampler::kBlock} * 4> last_block_{};
};

}  // namespace croupier::in_process
