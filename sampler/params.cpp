#include "sampler/params.h"

#include "proto/sampling_fields.h"

namespace croupier::sampler {

namespace fields = proto::fields;

using proto::SamplingParams;

bool perturbs_logits(const SamplingParams& params) noexcept {
    return params.rng == proto::Rng::sglang || params.rng == proto::Rng::vllm;
}

bool proposes(const SamplingParams& params) noexcept {
    return params.rng == proto::Rng::shvs && !is_truncated(params) && !is_greedy(params);
}

SamplingParams params_of_child(const SamplingParams& params, std::uint32_t i) noexcept {
    SamplingParams child = params;
    if (perturbs_logits(params)) {
        child.seed += i;
    } else {
        child.child += i;
    }
    return child;
}

bool has_mirostat(const SamplingParams& params) noexcept {
    return fields::mirostat.is_on(params) && !is_greedy(params);
}

bool has_adaptive_p(const SamplingParams& params) noexcept {
    return fields::adaptive_target.is_on(params) && !is_greedy(params);
}

}  // namespace croupier::sampler
