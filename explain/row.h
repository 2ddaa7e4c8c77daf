// A row of logits in the layout of a slot: shards, tiles, and columns of neighbours in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "proto/dtype.h"
#include "sampler/row_view.h"

namespace croupier::explain {

// The element's bits, rounded from the double to nearest, ties to even; too large values become infinite.
std::uint32_t encode(double value, proto::Dtype dtype);
double decode(std::uint32_t bits, proto::Dtype dtype);

struct RowShape {
    proto::Dtype dtype = proto::Dtype::fp32;
    std::uint32_t vocab = 0;
    std::uint32_t tile = 64;
    std::uint32_t ranks = 1;
};

class Row {
  public:
    Row() = default;
    // `elements` are in the order of ids. The shape must have been checked by proto::geometry_fault.
    Row(const RowShape& shape, std::span<const std::byte> elements);

    std::uint32_t vocab() const { return shape_.vocab; }
    proto::Dtype dtype() const { return shape_.dtype; }
    sampler::RowView view() const;
    double logit(std::int32_t token) const;

  private:
    // The offset of an id in its rank's slice, which begins with the block of the rank's first id.
    std::size_t place(std::uint32_t id, std::uint32_t rank_first_id) const;

    struct alignas(64) Line {
        std::byte bytes[64];
    };
    RowShape shape_;
    std::vector<std::vector<Line>> memory_;  // one per rank
    std::vector<sampler::Slice> slices_;
};

}  // namespace croupier::explain
