// The first two variants of the SIMPLE paper's ablation: an engine's sampler ported to the CPU, over the
// whole vocabulary.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "proto/sampling.h"

namespace croupier::bench {

class FullPort {
  public:
    // `keeps_counts`: keep each sequence's counts between steps; otherwise count the history at every step,
    // as with batched tensors.
    FullPort(std::uint32_t vocab, bool keeps_counts);

    void begin(std::span<const std::int32_t> prompt, std::span<const std::int32_t> output);
    std::uint32_t decide(const std::uint16_t* row, const proto::SamplingParams& params,
                         std::span<const std::int32_t> prompt, std::span<const std::int32_t> output);

  private:
    void count(std::span<const std::int32_t> prompt, std::span<const std::int32_t> output);
    void penalise(const proto::SamplingParams& params);
    void cut(const proto::SamplingParams& params);
    void soften(double min_p);
    std::uint32_t draw();

    bool keeps_counts_;
    std::vector<float> values_;
    std::vector<float> sorted_;
    std::vector<std::uint32_t> ids_;
    std::vector<std::uint8_t> in_prompt_;
    std::vector<std::uint32_t> counts_;
    std::minstd_rand random_{1};
};

}  // namespace croupier::bench
