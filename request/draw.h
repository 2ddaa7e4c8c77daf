// How a request's token is drawn, and which log-probs are answered beside it.
#pragma once

#include <cstdint>

#include "proto/philox.h"
#include "proto/sampling.h"
#include "request/steps.h"

namespace croupier::request {

// What stands beside a request's parameters, but for a grammar mask.
struct Rules {
    bool lists = false;    // allowed ids
    bool changes = false;  // biases, bad words, or stop ids that are forbidden until min_tokens are out

    bool operator==(const Rules&) const = default;
};

// How many entries the lists beside a request's parameters have.
struct ListSizes {
    std::size_t allowed = 0;
    std::size_t biases = 0;
    std::size_t bad_words = 0;
};
constexpr Rules rules_of(const SamplingParams& params, const ListSizes& sizes, std::size_t output) {
    const bool bans_stops = output < params.min_tokens;
    return {sizes.allowed > 0, sizes.biases > 0 || sizes.bad_words > 0 || bans_stops};
}

// What a request's race divides logits by, where nothing else makes its temperature; 0: it is greedy.
constexpr float race_temperature(const SamplingParams& params) {
    return is_greedy(params) ? 0.0F : static_cast<float>(draw_temperature(params));
}

// Whether the request draws as another engine does: the largest of its logits and their noise.
constexpr bool perturbs_logits(const SamplingParams& params) {
    return params.rng == proto::Rng::sglang || params.rng == proto::Rng::vllm;
}

// Whether a draw from all tokens is by proposals.
constexpr bool proposes(const SamplingParams& params) {
    return params.rng == proto::Rng::shvs && !is_truncated(params) && !is_greedy(params);
}

// Mirostat and adaptive-p replace the draw; both walk in canonical order too.
constexpr bool has_mirostat(const SamplingParams& params) {
    return fields::mirostat.is_on(params) && !is_greedy(params);
}
constexpr bool has_adaptive_p(const SamplingParams& params) {
    return fields::adaptive_target.is_on(params) && !is_greedy(params);
}
constexpr bool replaces_draw(const SamplingParams& params) {
    return has_mirostat(params) || has_adaptive_p(params);
}

// Whether XTC, where it is on, acts on the token at this index of prompt and output.
constexpr bool xtc_acts(const SamplingParams& params, std::uint32_t position) {
    const std::uint32_t random = proto::random_at(params.seed, position, params.child, proto::kXtcStream);
    return proto::open_uniform(random) <= params.xtc_probability;
}

// Of the i-th of the children that a request asks for with `n`: i has a word of the random counter, but
// other engines know only the seed, and add i to it.
constexpr SamplingParams params_of_child(const SamplingParams& params, std::uint32_t i) {
    SamplingParams child = params;
    if (perturbs_logits(params)) {
        child.seed += i;
    } else {
        child.child += i;
    }
    return child;
}

constexpr bool wants_logprob(const SamplingParams& params) {
    return (params.flags & proto::kNoLogprob) == 0;
}

// Whether a token's rank counts those of the same logit, itself included.
constexpr bool counts_ties(const SamplingParams& params) {
    return (params.flags & proto::kRankCountsTies) != 0;
}

// How many of the best tokens' log-probs are answered, beside the drawn token's own.
constexpr std::uint32_t ranked_logprobs(const SamplingParams& params) {
    return wants_logprob(params) ? params.logprobs : 0;
}

constexpr bool wants_processed(const SamplingParams& params) {
    return wants_logprob(params) && params.logprob_mode == proto::LogprobMode::processed;
}

// The scale at which the weight of the whole row tells a processed log-prob: a greedy request's is the
// distribution at 1.
constexpr double processed_scale(const SamplingParams& params) {
    return is_greedy(params) ? 1.0 : 1.0 / draw_temperature(params);
}

}  // namespace croupier::request
