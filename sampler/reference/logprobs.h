// Log-probs of what is left, with ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "sampler/reference/left.h"
#include "sampler/request.h"

namespace croupier::sampler::reference {

// The drawn token's first, then those of the `count` best in canonical order; fewer where fewer are left.
std::vector<RankedLogprob> ranked_logprobs(const Left& left, std::int32_t drawn, std::uint32_t count);
// How many tokens are at or above the drawn one, itself among them.
std::uint32_t rank_with_ties(const Left& left, std::int32_t drawn);

}  // namespace croupier::sampler::reference
