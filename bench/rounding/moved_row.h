// A row and a slightly changed copy, as an engine might compute it again, with their exact distributions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "proto/dtype.h"
#include "proto/sampling.h"
#include "sampler/row_view.h"
#include "sampler/workspace.h"

namespace croupier::bench {

class MovedRow {
  public:
    // Stores the values, which must be representable, in this dtype.
    MovedRow(proto::Dtype dtype, std::vector<float> values);
    MovedRow(const MovedRow&) = delete;
    MovedRow& operator=(const MovedRow&) = delete;

    std::span<const float> values() const { return values_; }
    sampler::RowView view() const { return {dtype_, vocab(), sampler::kBlock, 1, 0, {&slice_, 1}}; }
    // The probability of each id with temperature, top_k and top_p, in double precision. Shares no code with
    // the sampler.
    std::vector<double> probabilities(const proto::SamplingParams& params) const;

  private:
    std::uint32_t vocab() const { return static_cast<std::uint32_t>(values_.size()); }
    void lay();
    void note_maxima();

    proto::Dtype dtype_;
    std::vector<float> values_;
    std::vector<std::uint32_t> order_;     // canonical order: descending logits, then ascending ids
    std::vector<std::uint32_t> elements_;  // whole blocks, in the dtype
    std::vector<float> maxima_;            // per block
    sampler::Slice slice_;
};

// Adds sigma times a normal deviate to each value.
std::vector<float> with_noise(std::span<const float> values, double sigma, std::uint64_t seed);
// Rounds to the nearest bf16, ties to even.
std::vector<float> rounded_to_bf16(std::span<const float> values);

// The total variation distance: however two draws are coupled, they differ at least this often.
double total_variation(std::span<const double> one, std::span<const double> other);

}  // namespace croupier::bench
