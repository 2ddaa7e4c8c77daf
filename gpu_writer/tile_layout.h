// Lays rows of logits into a slice: [tiles][columns][tile] elements, whole blocks of ids (proto/geometry.h).
#pragma once

#include <cstdint>
#include <span>

#include "gpu_writer/element_codes.h"
#include "proto/dtype.h"
#include "proto/geometry.h"

namespace croupier::gpu_writer {

struct SliceShape {
    proto::Dtype dtype = proto::Dtype::bf16;
    std::uint32_t tile = 1;
    std::uint32_t columns = 1;  // of the step
    std::uint32_t lead = 0;     // of the first block, the entries before the rank's first id
    std::uint32_t entries = 0;  // of a row, those in the vocabulary: what follows them is not laid
    std::uint32_t blocks = 0;   // that the rank's ids touch
    // Which block stands at each place, counted from the rank's first one; null: in the order of their ids.
    const std::uint32_t* order = nullptr;

    std::uint32_t places() const { return blocks * proto::kBlockIds; }
};
// Of one rank's slice in a step of so many columns.
SliceShape slice_shape(const proto::Geometry& geometry, std::uint32_t rank, std::uint32_t columns,
                       std::span<const std::uint32_t> order);

struct SliceMemory {
    void* elements = nullptr;
    float* maxima = nullptr;  // [columns][maxima_stride]; null: the session has no summaries
    std::uint32_t maxima_stride = 0;
};

// `rows` stand in the columns from `first_column` on; each has at least shape.entries elements, by id.
void lay_rows(const SliceShape& shape, std::uint32_t first_column, std::span<const void* const> rows,
              const SliceMemory& slice);

}  // namespace croupier::gpu_writer
