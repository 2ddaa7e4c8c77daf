// A row of logits laid out as ranks lay theirs into a slot: shards, tiles, and neighbours' columns between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "proto/sampling.h"
#include "sampler/row_view.h"

namespace croupier::explain {

// The element's bits, rounded once from the double to the nearest, ties to even; past the largest: infinite.
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
    // `elements` are the row's in the order of ids; the shape was checked by proto::geometry_fault.
    Row(const RowShape& shape, std::span<const std::byte> elements);

    std::uint32_t vocab() const { return shape_.vocab; }
    proto::Dtype dtype() const { return shape_.dtype; }
    sampler::RowView view() const;
    double logit(std::int32_t token) const;

  private:
    // Of an id in its rank's slice, which begins at the block that the rank's first id stands in.
    std::size_t place(std::uint32_t id, std::uint32_t rank_first_id) const;

    struct alignas(64) Line {
        std::byte bytes[64];
    };
    RowShape shape_;
    std::vector<std::vector<Line>> memory_;  // a rank's
    std::vector<sampler::Slice> slices_;
};

}  // namespace croupier::explain
