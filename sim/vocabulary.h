// How the vocabulary is split among the ranks, and the order in which they write it.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/geometry.h"
#include "sim/options.h"
#include "sim/request_plan.h"

namespace croupier::sim {

struct Vocabulary {
    proto::Geometry geometry;          // of the session that the engine opens
    std::vector<std::uint32_t> order;  // all blocks, hottest first; empty: identity

    // The number of ids that are more common.
    std::uint32_t rank_of(std::uint32_t id) const {
        const std::uint32_t block = id / proto::kBlockIds;
        return (places.empty() ? block : places[block]) * proto::kBlockIds + id % proto::kBlockIds;
    }

    std::vector<std::uint32_t> places;  // the place of each block in the order
};

Vocabulary make_vocabulary(const SimOptions& options, const RequestPlan& plan);

}  // namespace croupier::sim
