// The vector passes over a row's blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sampler/blocked_row.h"

namespace croupier::sampler {

enum class RowFault { none, nan, positive_infinity };

// The values of as many elements as there is room for, and what they are like.
struct Widened {
    float largest;  // meaningless where one is NaN
    bool sound;     // none is NaN or +inf
};
Widened widen_codes(proto::Dtype dtype, const void* codes, std::span<float> values) noexcept;

// Fills the largest value of each block, reading every element once. A NaN is reported before a +inf.
RowFault scan_block_maxima(const BlockedRow& row, std::span<float> block_max) noexcept;
RowFault judge_scan(proto::Dtype dtype, std::uint32_t largest_code,
                    std::span<const float> block_max) noexcept;
// The same of maxima that the writer gave.
RowFault judge_block_maxima(std::span<const float> block_max) noexcept;

float largest_of(std::span<const float> values) noexcept;
// The largest of these block maxima, or under a mask the largest entry that the mask leaves: of a partial row
// it is known if the writers knew of the mask.
float largest_entry(const BlockedRow& row, std::span<const std::uint32_t> mask,
                    std::span<const float> block_max) noexcept;
// Of those whose bits are not set; -inf: of none.
float largest_without(std::span<const float> values, std::span<const std::uint64_t> bits) noexcept;

// Leaves in folded[i] the largest of values[i], values[i + folded.size()] and so on. At least as many values
// as there is room for.
void fold_maxima(std::span<const float> values, std::span<float> folded) noexcept;

// How many are at least `floor`.
std::uint32_t count_at_least(std::span<const float> values, float floor) noexcept;

// The same of several floors in one pass, 1 to kMostFloors.
constexpr std::size_t kMostFloors = 7;
void count_at_least_each(std::span<const float> values, std::span<const float> floors,
                         std::span<std::uint32_t> counts) noexcept;

// One element of a row that was found.
struct Found {
    std::uint32_t token;
    float value;
};

// So many of them, in so many blocks that were read.
struct Finds {
    std::size_t entries = 0;
    std::size_t blocks = 0;
};

// All elements of at least `floor`, out of the blocks whose maximum in the workspace reaches it, in the order
// of their ids, or as they are listed; into the workspace's found; -inf is never found. Returns how many.
std::uint32_t find_at_least(const BlockedRow& row, float floor, Workspace& workspace) noexcept;

// The same of those of at most `ceiling`.
std::uint32_t find_in_range(const BlockedRow& row, float floor, float ceiling, Workspace& workspace) noexcept;

// How many of at least `floor` the mask allows; an empty one allows all.
std::uint32_t count_allowed(const BlockedRow& row, std::span<const std::uint32_t> mask, float floor,
                            Workspace& workspace) noexcept;

}  // namespace croupier::sampler
