// What the values of the sampling parameters switch on; their ranges are in proto/sampling_fields.h.
#pragma once

#include <cstdint>

#include "proto/sampling.h"

namespace croupier::sampler {

// Below it the weights of all but the maximum vanish anyway.
constexpr double kLowestTemperature = 0.01;

// Temperatures below 1e-5 ask for the first maximum, whatever the order says.
bool is_greedy(const proto::SamplingParams& params) noexcept;

// 0 < T < 0.01 counts as 0.01.
double effective_temperature(const proto::SamplingParams& params) noexcept;

// The order that the request asks for, the default one where it asks for none.
const proto::StepOrder& order_of(const proto::SamplingParams& params) noexcept;

// Whether the step removes tokens.
bool is_filter(proto::Step step) noexcept;

// Whether the step is in the order and its values switch it on. A greedy request takes no step but penalties
// and DRY.
bool takes_step(const proto::SamplingParams& params, proto::Step step) noexcept;

// Whether any filter is on, so that the draw walks the survivors in canonical order, whatever was removed.
bool is_truncated(const proto::SamplingParams& params) noexcept;

// Whether the request draws as another engine does: the largest of its logits and their noise.
bool perturbs_logits(const proto::SamplingParams& params) noexcept;

// Those of the i-th of the children that a request asks for with `n`: i has a word of the random counter, but
// other engines know only the seed, and add i to it.
proto::SamplingParams params_of_child(const proto::SamplingParams& params, std::uint32_t i) noexcept;

// Mirostat and adaptive-p take the draw's place; both walk in canonical order too.
bool has_mirostat(const proto::SamplingParams& params) noexcept;
bool has_adaptive_p(const proto::SamplingParams& params) noexcept;

}  // namespace croupier::sampler
