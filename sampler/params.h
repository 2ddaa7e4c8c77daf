// What the values of the sampling parameters switch on; their ranges are in proto/param_ranges.h.
#pragma once

#include "proto/sampling.h"

namespace croupier::sampler {

// Temperatures below 1e-5 ask for the first maximum.
bool is_greedy(const proto::SamplingParams& params) noexcept;

// 0 < T < 0.01 counts as 0.01, below which the weights of all but the maximum vanish anyway.
double effective_temperature(const proto::SamplingParams& params) noexcept;

// Whether any filter is on, so that the draw walks the survivors in canonical order.
bool is_truncated(const proto::SamplingParams& params) noexcept;

}  // namespace croupier::sampler
