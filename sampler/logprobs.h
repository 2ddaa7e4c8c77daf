// Log-probs of the drawn token and of the best.
#pragma once

#include <cstdint>
#include <span>

#include "proto/sampling.h"
#include "sampler/blocked_row.h"
#include "sampler/candidates.h"
#include "sampler/survivors.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// Of a distribution with these survivors, whose total is exact; `first` are the first of them, as many as are
// asked for. Returns the drawn token's.
float processed_logprobs(const proto::SamplingParams& params, const Candidate& drawn, Survivors& survivors,
                         std::span<const Candidate> first, Workspace& workspace);

// Of the row after the mask, weighed at this scale. Overwrites the workspace's candidates.
float row_logprobs(const proto::SamplingParams& params, const Candidate& drawn, double scale,
                   const BlockedRow& row, const Request& request, CandidateSearch& search,
                   Workspace& workspace);

}  // namespace croupier::sampler
