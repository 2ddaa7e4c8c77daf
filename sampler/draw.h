// What may take the draw's place, and the draws of other engines.
#pragma once

#include <cstdint>

#include "proto/sampling.h"
#include "sampler/request.h"
#include "sampler/survivors.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// The temperature that a request races at, where no filter makes it.
double draw_temperature(const proto::SamplingParams& params) noexcept;

// Mirostat: leaves what may be drawn, and says what that draw leaves for the next decision.
void keep_by_mirostat(const proto::SamplingParams& params, const Request& request, Survivors& survivors,
                      std::uint32_t vocab);
proto::Feedback after_mirostat(const proto::SamplingParams& params, const Request& request, Mass drawn,
                               Mass total);

// The largest of the logits that the request's rng perturbs, among the workspace's first `candidates`.
Candidate draw_perturbed(const proto::SamplingParams& params, const Request& request,
                         std::uint32_t candidates, double temperature, const Workspace& workspace);

}  // namespace croupier::sampler
