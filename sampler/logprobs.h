// Log-probs of the drawn token and of the best.
#pragma once

#include <cstdint>
#include <span>

#include "proto/sampling.h"
#include "sampler/blocked_row.h"
#include "sampler/candidates.h"
#include "sampler/mass.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// What was drawn from, its total exact.
struct Distribution {
    Weigher weigher;
    Mass total;
    std::uint32_t tokens;
};

// `first` are the first of the distribution's, as many as are asked for. Returns the log-prob of the drawn
// token, which has this rank.
float processed_logprobs(const proto::SamplingParams& params, const Candidate& drawn, std::uint32_t rank,
                         const Distribution& distribution, std::span<const Candidate> first,
                         Workspace& workspace);

// Of the row after the mask, weighed at this scale. Overwrites the workspace's candidates.
float row_logprobs(const proto::SamplingParams& params, const Candidate& drawn, double scale,
                   const BlockedRow& row, const Request& request, CandidateSearch& search,
                   Workspace& workspace);

}  // namespace croupier::sampler
