#include "sampler/params.h"

#include <algorithm>

namespace croupier::sampler {

using proto::SamplingParams;

bool is_greedy(const SamplingParams& params) noexcept {
    return params.temperature < 1e-5;
}

double effective_temperature(const SamplingParams& params) noexcept {
    return std::max(params.temperature, 0.01);
}

bool is_truncated(const SamplingParams& params) noexcept {
    return params.top_k > 0 || params.top_p < 1.0 || params.min_p > 0.0;
}

}  // namespace croupier::sampler
