// When tokens arrive, for many at once: the vector passes of the race (proto/race.h).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>

#include "proto/race.h"
#include "sampler/blocked_row.h"

namespace croupier::sampler {

// The logarithms of the blocks' first arrivals, by block. They need no logits, so that they can be made
// before the row arrives.
void make_first_arrivals(const proto::race::Key& key, std::span<float> ln_first) noexcept;

// An upper bound of the members' scores, by block: of members of at most `ceiling`, in blocks that reach
// `floor`; -inf for other blocks. Returns the largest.
struct BoundedValues {
    float floor;
    float ceiling;
};
constexpr BoundedValues kAllValues = {std::numeric_limits<float>::lowest(),
                                      std::numeric_limits<float>::infinity()};
float bound_blocks(std::span<const float> block_max, std::span<const float> ln_first, float temperature,
                   const BoundedValues& values, std::span<float> bounds) noexcept;

// The numbers of the values from `floor` on, ascending; returns how many.
std::uint32_t list_reaching(std::span<const float> values, float floor,
                            std::span<std::uint32_t> out) noexcept;

// One block's members: what they hold, when they arrive, and their scores as they stand.
struct OpenedBlock {
    std::array<float, proto::race::kBlockTokens> values;
    std::array<float, proto::race::kBlockTokens> ln_arrivals;
    std::array<float, proto::race::kBlockTokens> scores;
};
// Returns which members score `least` or more, a bit each.
std::uint64_t open_block(proto::Dtype dtype, const std::byte* elements, const proto::race::Key& key,
                         std::uint32_t block, float temperature, float least, OpenedBlock& opened) noexcept;

// Which members would score `least` or more if each were the block's first to arrive, and what they hold.
std::uint64_t reach_members(proto::Dtype dtype, const std::byte* elements, float ln_first, float temperature,
                            float least, std::span<float, proto::race::kBlockTokens> values) noexcept;

// The logarithms of these tokens' arrivals.
void make_arrivals(const proto::race::Key& key, std::span<const std::uint32_t> tokens,
                   std::span<float> ln_arrivals) noexcept;

}  // namespace croupier::sampler
