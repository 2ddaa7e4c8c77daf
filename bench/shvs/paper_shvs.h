// The SIMPLE paper's speculative hot-vocab sampling (section 5.3) over rows in hotness order: accepts a
// candidate from the hot prefix if u <= alpha, otherwise draws from the tail. The mass of the tail is an
// input, which in the paper comes from the GPU.
#pragma once

#include <cstdint>

#include "proto/sampling.h"
#include "sampler/workspace.h"

namespace croupier::bench {

class PaperShvs {
  public:
    PaperShvs(std::uint32_t vocab, std::uint32_t hot);

    struct Tail {
        double mass;  // in units of the weight of `maximum`
        double maximum;
    };
    // What the GPU would compute with the row.
    Tail tail_of(const std::uint16_t* row, double scale) const;

    struct Drawn {
        std::uint32_t token;  // its place in hotness order
        bool accepted;
        double alpha;
    };
    Drawn draw(const std::uint16_t* row, const Tail& tail, const proto::SamplingParams& params,
               std::uint32_t position);

    std::uint32_t hot() const { return hot_; }

  private:
    std::uint32_t vocab_;
    std::uint32_t hot_;
    sampler::Workspace hot_memory_;
    sampler::Workspace tail_memory_;
};

}  // namespace croupier::bench
