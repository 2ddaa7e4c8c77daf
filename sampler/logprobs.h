// Log-probs of the drawn token and of the best.
#pragma once

#include <cstdint>

#include "proto/sampling.h"
#include "sampler/blocked_row.h"
#include "sampler/candidates.h"
#include "sampler/survivors.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// Of a distribution with these survivors, whose total is exact. Returns the drawn token's.
float processed_logprobs(std::uint32_t best, const Candidate& drawn, Survivors& survivors,
                         Workspace& workspace);

// Of the row after the mask. Overwrites the workspace's candidates.
float raw_logprobs(std::uint32_t best, const Candidate& drawn, const BlockedRow& row, const Request& request,
                   CandidateSearch& search, Workspace& workspace);

}  // namespace croupier::sampler
