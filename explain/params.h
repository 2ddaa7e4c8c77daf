// The "params" of a request, with the names of docs/semantics.md.
#pragma once

#include <cstdint>
#include <vector>

#include "explain/fields.h"
#include "proto/sampling.h"

namespace croupier::explain {

struct Params {
    proto::SamplingParams sampling;
    std::uint32_t children = 1;  // the parameter n
    std::vector<proto::TokenBias> bias;
    std::vector<std::int32_t> stop_ids;
    std::vector<std::int32_t> allowed_ids;
    std::vector<std::int32_t> bad_words;     // for each list, its length and then its ids
    std::vector<std::int32_t> dry_breakers;  // same format
};

// In the order of the enumerators of proto::Step (without the end), proto::Rng and proto::LogprobMode.
const std::vector<std::string>& step_names();
const std::vector<std::string>& rng_names();
const std::vector<std::string>& logprob_mode_names();

// Checks types and sizes; the sampler checks ranges (proto/sampling.h).
Params read_params(const Json& object);

}  // namespace croupier::explain
