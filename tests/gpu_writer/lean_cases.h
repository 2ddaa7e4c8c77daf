// Lean steps of all shapes and rows.
#pragma once

#include <cstdint>
#include <random>

#include "tests/gpu_writer/lean_side.h"

namespace croupier::testing {

// Cuts within blocks, vocabularies that end within one, ids beyond them, any tile.
LeanCase random_case(std::mt19937_64& random);
// One rank, as engines have them: aligned rows, tiles of a block. Every column has sums.
LeanCase usual_case(std::uint32_t vocab, std::uint32_t columns, std::uint32_t lean_blocks);
// As that, with grammar masks on half of the columns, and ids that are named.
LeanCase masked_case(std::uint32_t vocab, std::uint32_t columns, std::uint32_t lean_blocks);
// One column whose blocks' largest entries are one code apart, so many of which are wanted.
LeanCase stairs_case(std::uint32_t blocks, std::uint32_t wanted, proto::Dtype dtype);
// As a usual case, of any dtype, with a column of each kind of rows, which is drawn.
LeanCase drawn_case(std::uint32_t vocab, std::mt19937_64& random);

}  // namespace croupier::testing
