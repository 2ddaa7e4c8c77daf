// Rows that are hard to tell from few of their blocks.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "proto/dtype.h"

namespace croupier::sampler::test {

constexpr std::uint32_t kStrangeRows = 11;

// Of the dtype's values, by token id.
std::vector<float> strange_row(std::uint32_t kind, std::uint32_t vocab, proto::Dtype dtype,
                               std::mt19937_64& generator);

}  // namespace croupier::sampler::test
