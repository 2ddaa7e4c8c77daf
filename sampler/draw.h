// The draw, and what may take its place.
#pragma once

#include <cstdint>

#include "proto/sampling.h"
#include "sampler/request.h"
#include "sampler/survivors.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// From survivors weighed at the final temperature, by mirostat or adaptive-p where they are on. Writes the
// feedback into the workspace's answer; the survivors are then those that were drawn from.
Candidate draw_survivor(const proto::SamplingParams& params, const Request& request, Survivors& survivors,
                        Workspace& workspace);

// Inverse CDF in vocabulary order over the workspace's first `candidates`, which stand in it.
Candidate draw_in_vocabulary_order(std::uint32_t random, std::uint32_t candidates, double scale,
                                   const Workspace& workspace);

// The largest of the logits that the request's rng perturbs, among the workspace's first `candidates`.
Candidate draw_perturbed(const proto::SamplingParams& params, const Request& request,
                         std::uint32_t candidates, double temperature, const Workspace& workspace);

}  // namespace croupier::sampler
