// Rows of logits, and what a writer has to make of them: one element at a time, as docs/architecture.md words
// it.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/geometry.h"

namespace croupier::testing {

using Bytes = std::vector<unsigned char>;

struct Rows {
    Bytes bytes;
    std::uint64_t stride = 0;  // elements
};

float naive_value(proto::Dtype dtype, std::uint32_t code);

// Small numbers of either sign; among them now and then any pattern of bits, NaN and infinities too.
Rows random_rows(const proto::Geometry& geometry, std::uint32_t rank, std::uint32_t columns,
                 std::uint64_t stride, std::uint32_t seed);

// `order`: the rank's blocks; empty: identity.
Bytes naive_slice(const proto::Geometry& geometry, std::uint32_t rank, std::uint32_t columns,
                  const std::vector<std::uint32_t>& order, const Rows& rows);
std::vector<float> naive_maxima(const proto::Geometry& geometry, std::uint32_t rank, std::uint32_t columns,
                                const Bytes& slice);

// The same number, or NaN both.
bool same(float a, float b);

}  // namespace croupier::testing
