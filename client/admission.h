// Checks a sequence for croupier_add(): every field is in its range, every id in the vocabulary.
#pragma once

#include <vector>

#include "croupier/client.h"
#include "shm/sequence_table.h"

namespace croupier::client {

// The spans point to the caller's arrays, except for those of the vectors.
struct Admitted {
    shm::NewSequence sequence;
    std::vector<proto::TokenBias> bias;
    std::vector<std::int32_t> stop_words;
};

shm::Result<Admitted> check_sequence(const croupier_sequence& sequence, const proto::Geometry& geometry);

}  // namespace croupier::client
