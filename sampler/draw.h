// What may replace the draw (mirostat, adaptive-p), and the draws of other engines.
#pragma once

#include <cstdint>
#include <span>

#include "proto/decision.h"
#include "proto/sampling.h"
#include "sampler/request.h"
#include "sampler/survivors.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// How many of the best mirostat's version 1 keeps, of `left` tokens.
std::uint64_t mirostat_kept(const proto::SamplingParams& params, const Request& request,
                            const Survivors& best, std::uint64_t left, std::uint32_t vocab);

// Adaptive-p: what no logit exceeds that replaces a token of each block.
void bound_adaptive(std::span<const float> block_max, const AdaptiveLogit& logit, std::span<float> most);

// Mirostat: leaves what may be drawn, and says what that draw leaves for the next decision.
void keep_by_mirostat(const proto::SamplingParams& params, const Request& request, Survivors& survivors,
                      std::uint32_t vocab);
proto::Feedback after_mirostat(const proto::SamplingParams& params, const Request& request, Mass drawn,
                               Mass total);

// A logit with the noise of the request's rng, sglang or vllm.
double perturbed_score(const proto::SamplingParams& params, const Request& request,
                       const Candidate& candidate, double temperature) noexcept;

// The largest of the logits that the request's rng perturbs, among the workspace's first `candidates`.
Candidate draw_perturbed(const proto::SamplingParams& params, const Request& request,
                         std::uint32_t candidates, double temperature, const Workspace& workspace);

}  // namespace croupier::sampler
