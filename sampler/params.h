// What the values of the sampling parameters switch on; their ranges are in proto/sampling_fields.h.
#pragma once

#include <cstdint>

#include "proto/sampling.h"
#include "proto/sampling_steps.h"

namespace croupier::sampler {

using proto::draw_temperature;
using proto::effective_temperature;
using proto::is_filter;
using proto::is_greedy;
using proto::is_truncated;
using proto::kLowestTemperature;
using proto::order_of;
using proto::takes_step;

// Whether the request draws as another engine does: the largest of its logits and their noise.
bool perturbs_logits(const proto::SamplingParams& params) noexcept;

// Whether a draw from all tokens is by proposals.
bool proposes(const proto::SamplingParams& params) noexcept;

// Those of the i-th of the children that a request asks for with `n`: i has a word of the random counter, but
// other engines know only the seed, and add i to it.
proto::SamplingParams params_of_child(const proto::SamplingParams& params, std::uint32_t i) noexcept;

// Mirostat and adaptive-p take the draw's place; both walk in canonical order too.
bool has_mirostat(const proto::SamplingParams& params) noexcept;
bool has_adaptive_p(const proto::SamplingParams& params) noexcept;

}  // namespace croupier::sampler
