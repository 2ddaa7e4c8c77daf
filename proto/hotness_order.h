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

// Equal counts fall back on the id: the order is a function of the counts alone, and the ids of a BPE
// vocabulary were given in the order of merges, which is nearly that of frequency.
HotnessOrder rank_by_count(std::string model, double smoothing, std::span<const double> count_of_id);

// Empty when all is sound; else a sentence that names the field, what it holds and what would be right.
std::optional<std::string> model_name_fault(std::string_view name);
std::optional<std::string> smoothing_fault(double smoothing);
std::optional<std::string> order_fault(const HotnessOrder& order);
// `counted` is what a file says of a sound order.
std::optional<std::string> counted_fault(const HotnessOrder& order, double counted);

// The ranks' slices one after the other: each rank's own ids, hottest first. `hot_first` is a permutation of
// the geometry's vocabulary.
std::vector<std::int32_t> cut_among_ranks(const Geometry& geometry, std::span<const std::int32_t> hot_first);
// How many of the `hot` hottest ids each rank owns: so long is its slice's prefix that holds them.
std::vector<std::uint32_t> hot_prefixes(const Geometry& geometry, std::span<const std::int32_t> hot_first,
                                        std::uint32_t hot);

}  // namespace croupier::proto
