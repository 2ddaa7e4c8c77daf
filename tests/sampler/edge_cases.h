// Requests that race among all tokens, so that a filter's edge can be laid next to the winner.
#pragma once

#include <cstdint>

#include "lean_fixture.h"
#include "lm_cases.h"

namespace croupier::sampler::test {

// With no control but a temperature, until others are set.
inline void race_all(LmCase& of, double temperature, std::uint64_t seed) {
    of.params = {};
    of.params.flags = proto::kNoLogprob;
    of.params.temperature = temperature;
    of.params.seed = seed;
    for (auto* list : {&of.allowed_ids, &of.bad_words, &of.breakers}) list->clear();
    of.bias.clear();
    of.mask.clear();
    of.hot_blocks.clear();
    bind_request(of);
    of.request.max_length = 100;
}

// Sums at the request's temperature, and so many of the row's blocks.
inline SentParts send_sums(const LmCase& of, std::uint32_t best) {
    SentParts parts;
    parts.best = best;
    parts.sums = true;
    parts.scale = 1.0 / of.params.temperature;
    return parts;
}

}  // namespace croupier::sampler::test
