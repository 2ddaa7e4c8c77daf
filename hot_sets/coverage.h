// What the hot sets of a hotness order, prefixes of its order of blocks, hold of the tokens.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "proto/hotness_order.h"

namespace croupier::hot_sets {

struct Coverage {
    std::uint32_t hot = 0;                // so many ids, rounded up to whole blocks
    double counted = 0.0;                 // its share of the tokens that were counted
    double smoothed = 0.0;                // the same with the smoothing's credit for each id
    std::vector<std::uint32_t> prefixes;  // each rank's blocks of it
};

// For hot sets of 1024, 2048, 4096 ... and the whole vocabulary; from less on, a block at least, when that is
// small.
std::vector<Coverage> coverage_of(const proto::HotnessOrder& order, std::uint32_t tp);

std::size_t ids_counted(const proto::HotnessOrder& order);
// Model, vocabulary, tokens, smoothing, ids that were counted.
nlohmann::ordered_json facts_json(const proto::HotnessOrder& order);

}  // namespace croupier::hot_sets
