// A model's hotness order: all ids of its vocabulary, those that occur most in traces first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/geometry.h"

namespace croupier::proto {

constexpr std::size_t kMaxModelName = 112;
constexpr double kMaxSmoothing = 1e6;

struct HotnessOrder {
    std::string model;
    double smoothing = 0.0;         // occurrences that each id is credited with beyond those counted
    std::vector<std::int32_t> ids;  // hottest first; ids that were counted equally often ascend
    std::vector<double> counts;     // of ids[i]: weighted, the smoothing not in it

    double counted() const;  // all counts together
    bool operator==(const HotnessOrder&) const = default;
};

// Empty when all is sound; else a sentence that names the field, what it holds and what would be right.
std::optional<std::string> model_name_fault(std::string_view name);
std::optional<std::string> smoothing_fault(double smoothing);
std::optional<std::string> order_fault(const HotnessOrder& order);
// `counted` is what a file says of a sound order.
std::optional<std::string> counted_fault(const HotnessOrder& order, double counted);

// The model's order of blocks (proto/geometry.h): ranked by what their ids were counted together. Blocks that
// were counted equally often ascend.
std::vector<std::uint32_t> rank_blocks(const HotnessOrder& order);

// Whether `blocks` are those from `first` on, each once; else a sentence.
std::optional<std::string> block_order_fault(std::span<const std::uint32_t> blocks, std::uint32_t first);
// The inverse of what has no such fault: where each of them stands.
std::vector<std::uint32_t> places_of(std::span<const std::uint32_t> blocks, std::uint32_t first);

// A rank's blocks in the model's order, those beyond the vocabulary after all others. A block that ranks
// share stands in the lists of each.
std::vector<std::uint32_t> blocks_of_rank(const Geometry& geometry, std::uint32_t rank,
                                          std::span<const std::uint32_t> model_order);
// How many of the blocks that hold a hot set each rank has: so many of its slice's first ones.
std::vector<std::uint32_t> hot_prefixes(const Geometry& geometry, std::span<const std::uint32_t> model_order,
                                        std::uint32_t hot);

}  // namespace croupier::proto
