// How the simulated model's vocabulary is cut among the ranks and in which order each writes it.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/geometry.h"
#include "tools/sim/options.h"
#include "tools/sim/request_plan.h"

namespace croupier::tools::sim {

struct Vocabulary {
    proto::Geometry geometry;             // of the session that the engine opens
    std::vector<std::int32_t> hot_first;  // all ids, hottest first; empty: identity
    // Place (the ranks' slices one after the other) -> id, and back; empty: identity.
    std::vector<std::int32_t> id_at;
    std::vector<std::uint32_t> place_of;

    std::uint32_t place(std::int32_t id) const {
        const auto number = static_cast<std::uint32_t>(id);
        return place_of.empty() ? number : place_of[number];
    }
};

Vocabulary make_vocabulary(const SimOptions& options, const RequestPlan& plan);

}  // namespace croupier::tools::sim
