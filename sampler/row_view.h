// One column of a step, where the ranks wrote it: nothing is copied to make one of these.
#pragma once

#include <cstdint>
#include <span>

#include "proto/sampling.h"

namespace croupier::sampler {

// A rank's slice: [ceil(entries / tile)][columns][tile] elements, entries in the order of `ids`.
struct Slice {
    const void* elements = nullptr;
    std::uint32_t entries = 0;          // real entries; what fills the last tile is padding
    std::uint32_t first_id = 0;         // the rank's ids are first_id .. first_id + entries - 1
    const std::int32_t* ids = nullptr;  // position -> token id; null: identity
};

struct RowView {
    proto::Dtype dtype = proto::Dtype::bf16;
    std::uint32_t vocab = 0;
    std::uint32_t tile = 1;
    std::uint32_t columns = 1;  // how many columns the step has: the stride between tiles
    std::uint32_t column = 0;
    std::span<const Slice> slices;
};

}  // namespace croupier::sampler
