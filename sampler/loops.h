// Whether an output ends with the same tail several times in a row (docs/semantics.md). It is looked for in
// the log anew for each token, and nothing has to be rolled back. A text that does not repeat costs one
// comparison a period. One that repeats, but not often enough, costs up to proto::kMaxLoopTokens a period.
#pragma once

#include <cstdint>
#include <span>

#include "proto/sampling.h"

namespace croupier::sampler {

// Of the output with its next token. The parameters are in their ranges, and loop_max_period is on.
bool completes_loop(const proto::SamplingParams& params, std::span<const std::int32_t> output,
                    std::int32_t token) noexcept;

}  // namespace croupier::sampler
