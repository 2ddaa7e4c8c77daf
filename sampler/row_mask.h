// A row under a grammar mask.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sampler/blocked_row.h"
#include "sampler/row_scan.h"

namespace croupier::sampler {

// The largest codes of what was read, unsigned and signed.
struct SeenCodes {
    std::uint32_t largest;
    std::int32_t highest;
};

// Which of a block's tokens the mask allows, a bit each; an empty one allows all.
inline std::uint64_t allowed_in_block(std::span<const std::uint32_t> mask, std::uint32_t block) {
    if (mask.empty()) return ~std::uint64_t{0};
    const std::size_t word = std::size_t{block} * 2;
    const std::uint64_t high = word + 1 < mask.size() ? mask[word + 1] : 0;
    return high << 32U | mask[word];
}

// scan_block_maxima() of the allowed tokens alone, -inf where a block has none. A NaN or +inf is found
// anywhere.
RowFault scan_allowed_maxima(const BlockedRow& row, std::span<const std::uint32_t> mask,
                             std::span<float> block_max) noexcept;

// The same where all tokens' maxima are known: what is allowed as a whole, or not at all, is not read. A NaN
// or +inf that the maxima deny is found where it is read.
RowFault mask_block_maxima(const BlockedRow& row, std::span<const std::uint32_t> mask,
                           std::span<float> block_max) noexcept;

}  // namespace croupier::sampler
