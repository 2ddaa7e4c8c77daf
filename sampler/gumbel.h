// Noise for the draws of other engines: one formula for each `rng`, of the seed, the position and the token
// alone.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "proto/philox.h"
#include "sampler/log.h"

namespace croupier::sampler {

using proto::kXtcStream;
using proto::open_uniform;

// The murmur3 hash that SGLang and vLLM share. Here the position is that of the input token: prompt and
// output together, less one.
constexpr std::uint32_t murmur_mix(std::uint32_t hash, std::uint32_t word) {
    word = std::rotl(word * 0xCC9E2D51U, 15) * 0x1B873593U;
    return std::rotl(hash ^ word, 13) * 5 + 0xE6546B64U;
}

constexpr std::uint32_t murmur_before_token(std::uint64_t seed, std::uint32_t position) {
    std::uint32_t hash = murmur_mix(0, static_cast<std::uint32_t>(seed));
    hash = murmur_mix(hash, static_cast<std::uint32_t>(seed >> 32U));
    return murmur_mix(hash, position);
}

constexpr std::uint32_t murmur_hash(std::uint64_t seed, std::uint32_t position, std::uint32_t token) {
    std::uint32_t hash = murmur_mix(murmur_before_token(seed, position), token) ^ 16U;
    hash = (hash ^ hash >> 16U) * 0x85EBCA6BU;
    hash = (hash ^ hash >> 13U) * 0xC2B2AE35U;
    return hash ^ hash >> 16U;
}

// SGLang's multinomial_with_seed. The clamp keeps the hash that is all ones, whose uniform is 1, from winning
// whatever the logits say.
inline double sglang_noise(std::uint32_t hash) {
    if (hash == 0) return -log_positive(std::numeric_limits<double>::max());
    const double log_uniform = log_positive(static_cast<double>(hash) / 4294967295.0);
    return -log_positive(-std::min(log_uniform, -0x1p-32));
}

// vLLM's ln(1 - u), in float: a series below 1/4, its own logarithm above. fma, because the GPU's compiler
// fuses these products and sums.
inline float vllm_log_complement(float u) {
    if (u >= 0.25F) return static_cast<float>(log_positive(std::max(1.0F - u, 0x1p-24F)));
    float series = 1.0F / 8.0F;
    for (float n = 7.0F; n >= 1.0F; n -= 1.0F) series = std::fma(u, series, 1.0F / n);
    return -u * series;
}

// vLLM's gumbel_sample of its model runner V2, in float as there; the tail that wins lies at u -> 0.
inline float vllm_noise(std::uint32_t hash) {
    const auto uniform = static_cast<float>(open_uniform(hash));
    return -static_cast<float>(log_positive(-vllm_log_complement(uniform)));
}

}  // namespace croupier::sampler
