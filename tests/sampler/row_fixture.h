// Rows as ranks would have written them: any dtype, tile, column count, shards and order of blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "sampler/row_view.h"

namespace croupier::sampler::test {

struct RowShape {
    proto::Dtype dtype = proto::Dtype::fp32;
    std::uint32_t tile = 64;
    std::uint32_t columns = 1;
    std::uint32_t column = 0;
    std::vector<std::uint32_t> shards;  // ids a rank, perhaps some beyond the vocabulary; empty: one rank
    bool permuted = false;              // the blocks of each rank's slice
    bool summarised = false;            // with each tile's exact maximum
};

// The value of 16 bits of bf16 or fp16, by the formats' definition.
float value_of(std::uint16_t bits, proto::Dtype dtype);

// The largest value of the dtype not above `value`, which must be inside the dtype's range.
float quantised(float value, proto::Dtype dtype);

class RowFixture {
  public:
    // `logits`: by token id, each a value of the dtype. Other columns hold rubbish, padding and the ids
    // beyond the vocabulary hold NaN or rubbish; the summaries of other columns too.
    RowFixture(const std::vector<float>& logits, const RowShape& shape, std::uint64_t order_seed = 1);

    RowView view() const;

  private:
    struct Rank {
        std::vector<std::uint32_t> blocks;  // which stands at each place
        std::vector<std::uint32_t> places;  // of each block, counted from the first
        std::vector<std::uint32_t> wide;
        std::vector<std::uint16_t> narrow;
        std::vector<float> maxima;
    };

    Rank rank_of(const std::vector<float>& logits, std::uint32_t first, std::uint32_t count,
                 std::mt19937_64& generator) const;
    std::vector<float> entries_of(const std::vector<float>& logits, std::uint32_t first, std::uint32_t count,
                                  const Rank& rank, std::mt19937_64& generator) const;
    std::vector<float> maxima_of(const std::vector<float>& logits, std::uint32_t first, std::uint32_t count,
                                 const Rank& rank) const;

    RowShape shape_;
    std::uint32_t vocab_;
    std::vector<Rank> ranks_;
    std::vector<Slice> slices_;
};

}  // namespace croupier::sampler::test
