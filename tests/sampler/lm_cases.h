// Rows as language models give them, and requests as people send them. All of it from whole numbers: the same
// seed gives the same case with every standard library.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "case_generator.h"

namespace croupier::sampler::test {

struct LmCase : RandomCase {
    std::vector<std::int32_t> best;  // some of the row's best tokens, best first
};

// A row of the dtype's own values, those of bf16 being values of the others too: a bulk far below a head with
// a long tail, more often than not; flat, peaked or tied ones; some with holes. Sets the shape's dtype.
void fill_lm_row(LmCase& out, std::uint32_t vocab, proto::Dtype dtype, std::mt19937_64& generator);

// A row as ranks may hold it: cut at any ids, blocks in any order, ids beyond the vocabulary on the last rank
// or on one more, one column of several, with summaries and without.
RowShape lm_shape(std::uint32_t vocab, std::uint32_t ranks, std::uint32_t tile, proto::Dtype dtype,
                  std::mt19937_64& generator);

// A request about the case's row, one filter or a few, with penalties, biases and masks of all kinds.
void fill_lm_request(LmCase& out, std::mt19937_64& generator);

}  // namespace croupier::sampler::test
