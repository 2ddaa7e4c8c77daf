// The "params" of a request: the names of docs/semantics.md.
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
    std::vector<std::int32_t> bad_words;     // each list's length, then its ids
    std::vector<std::int32_t> dry_breakers;  // likewise
};

// As the enumerators of proto::Step (the end left out), proto::Rng and proto::LogprobMode count.
const std::vector<std::string>& step_names();
const std::vector<std::string>& rng_names();
const std::vector<std::string>& logprob_mode_names();

// Types and sizes are judged here; ranges are the sampler's to judge (proto/sampling_fields.h).
Params read_params(const Json& object);

}  // namespace croupier::explain
