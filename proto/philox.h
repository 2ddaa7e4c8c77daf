// Philox4x32-10 (Salmon et al., SC 2011): the counter-based randoms that CPU and GPU generate alike.
#pragma once

#include <array>
#include <cstdint>

namespace croupier::proto {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

constexpr std::uint64_t kPhiloxMultiplier0 = 0xD2511F53U;
constexpr std::uint64_t kPhiloxMultiplier1 = 0xCD9E8D57U;
constexpr std::uint32_t kPhiloxWeyl0 = 0x9E3779B9U;
constexpr std::uint32_t kPhiloxWeyl1 = 0xBB67AE85U;
constexpr int kPhiloxRounds = 10;

constexpr PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key) {
    for (int round = 0; round < kPhiloxRounds; ++round) {
        const std::uint64_t product0 = kPhiloxMultiplier0 * counter[0];
        const std::uint64_t product1 = kPhiloxMultiplier1 * counter[2];
        counter = {static_cast<std::uint32_t>(product1 >> 32U) ^ counter[1] ^ key[0],
                   static_cast<std::uint32_t>(product1),
                   static_cast<std::uint32_t>(product0 >> 32U) ^ counter[3] ^ key[1],
                   static_cast<std::uint32_t>(product0)};
        key = {key[0] + kPhiloxWeyl0, key[1] + kPhiloxWeyl1};
    }
    return counter;
}

// The randoms of one token: the key is the seed, the counter (position, child, stream, n). The position is
// the token's index in prompt and output together, so that a sequence which comes back with its outputs as a
// prompt goes on alike; the child keeps those of one request apart, whose seed is the same; n counts within a
// stream.
constexpr PhiloxCounter randoms_at(std::uint64_t seed, std::uint32_t position, std::uint32_t child,
                                   std::uint32_t stream, std::uint32_t n) {
    return philox4x32_10({position, child, stream, n},
                         {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U)});
}

constexpr std::uint32_t random_at(std::uint64_t seed, std::uint32_t position, std::uint32_t child,
                                  std::uint32_t stream) {
    return randoms_at(seed, position, child, stream, 0)[0];
}

// The stream of the random that says whether XTC acts.
constexpr std::uint32_t kXtcStream = 3;

// In the open interval (0, 1), exactly.
constexpr double open_uniform(std::uint32_t random) {
    return (static_cast<double>(random) + 0.5) * 0x1p-32;
}

}  // namespace croupier::proto
