// What a session asks for that may keep the samplers from another one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "croupier/client.hpp"
#include "proto/dtype.h"

namespace croupier::bench {

struct NeighbourKind {
    std::string name;
    std::string what;  // for people
    proto::Dtype dtype = proto::Dtype::bf16;
    // Of a sequence's prompt; `renewed`: every step has new sequences, whose histories no sampler knows.
    std::uint32_t prompt = 3;
    bool renewed = false;
    void (*ask)(client::Sequence& sequence, std::uint32_t vocab) = nullptr;
};

// The first one is the ordinary one; the others are the dearest of their kind that the default configuration
// admits.
const std::vector<NeighbourKind>& neighbour_kinds();

}  // namespace croupier::bench
