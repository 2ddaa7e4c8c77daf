// What croupier_add() admits: every field within its range, every id in the vocabulary.
#pragma once

#include <vector>

#include "croupier/client.h"
#include "shm/sequence_table.h"

namespace croupier::client {

// The spans point to the caller's arrays, but for the biases, which it owns.
struct Admitted {
    shm::NewSequence sequence;
    std::vector<proto::TokenBias> bias;
};

shm::Result<Admitted> check_sequence(const croupier_sequence& sequence, const proto::Geometry& geometry);

}  // namespace croupier::client
