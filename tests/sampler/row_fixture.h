// Rows as ranks would have written them: any dtype, tile, column count, sharding and hotness order.
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
    std::vector<std::uint32_t> shards;  // entries a rank; empty: one rank
    bool permuted = false;
    bool summarised = false;  // with each tile's exact maximum
};

// The value of 16 bits of bf16 or fp16, by the formats' definition.
float value_of(std::uint16_t bits, proto::Dtype dtype);

// The largest value of the dtype not above `value`, which must be inside the dtype's range.
float quantised(float value, proto::Dtype dtype);

class RowFixture {
  public:
    // `logits`: by token id, each a value of the dtype. Other columns hold rubbish and padding holds NaN; so
    // do their summaries.
    RowFixture(const std::vector<float>& logits, const RowShape& shape, std::uint64_t order_seed = 1);

    RowView view() const;
    const std::vector<std::int32_t>& order() const { return order_; }  // position -> token
    std::vector<std::int32_t>& rank_ids(std::size_t rank) { return ids_[rank]; }

  private:
    void add_rank(const std::vector<float>& logits, std::uint32_t first, std::uint32_t count,
                  std::mt19937_64& generator);
    std::vector<float> tile_maxima(const std::vector<float>& logits,
                                   const std::vector<std::int32_t>& ids) const;

    RowShape shape_;
    std::uint32_t vocab_;
    std::vector<std::vector<std::int32_t>> ids_;
    std::vector<std::vector<std::uint32_t>> wide_;
    std::vector<std::vector<std::uint16_t>> narrow_;
    std::vector<std::vector<float>> maxima_;
    std::vector<Slice> slices_;
    std::vector<std::int32_t> order_;
};

}  // namespace croupier::sampler::test
