// A model's hotness order from what a trace counted.
#pragma once

#include <span>
#include <string>

#include "proto/hotness_order.h"

namespace croupier::hot_sets {

// Equal counts fall back on the id: the order is a function of the counts alone, and the ids of a BPE
// vocabulary were given in the order of merges, which is nearly that of frequency.
proto::HotnessOrder rank_by_count(std::string model, double smoothing, std::span<const double> count_of_id);

}  // namespace croupier::hot_sets
