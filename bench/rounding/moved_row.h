// A row as an engine might have computed it a second time, and the exact distributions of either.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "proto/sampling.h"
#include "sampler/row_view.h"
#include "sampler/workspace.h"

namespace croupier::bench {

class MovedRow {
  public:
    // Laid as this dtype, whose values they are.
    MovedRow(proto::Dtype dtype, std::vector<float> values);
    MovedRow(const MovedRow&) = delete;
    MovedRow& operator=(const MovedRow&) = delete;

    std::span<const float> values() const { return values_; }
    sampler::RowView view() const { return {dtype_, vocab(), sampler::kBlock, 1, 0, {&slice_, 1}}; }
    // Of each id under the temperature, top_k and top_p of these, in double precision: it shares no code with
    // the sampler.
    std::vector<double> probabilities(const proto::SamplingParams& params) const;

  private:
    std::uint32_t vocab() const { return static_cast<std::uint32_t>(values_.size()); }
    void lay();
    void note_maxima();

    proto::Dtype dtype_;
    std::vector<float> values_;
    std::vector<std::uint32_t> order_;     // canonical: the largest first, then the smaller id
    std::vector<std::uint32_t> elements_;  // whole blocks, as the dtype has them
    std::vector<float> maxima_;            // of the blocks
    sampler::Slice slice_;
};

// Each value plus sigma times a normal deviate of a generator with this seed.
std::vector<float> with_noise(std::span<const float> values, double sigma, std::uint64_t seed);
// To the nearest bf16, ties to even.
std::vector<float> rounded_to_bf16(std::span<const float> values);

// Half the sum of the differences: no two draws, however they are coupled, differ more seldom.
double total_variation(std::span<const double> one, std::span<const double> other);

}  // namespace croupier::bench
