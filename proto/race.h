// The race of docs/semantics.md: when each token arrives. The same bits on every instruction set and on GPUs,
// because each operation is a single rounded IEEE one (-ffp-contract=off; nvcc: --fmad=false).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "proto/philox.h"

namespace croupier::proto::race {

// Block b is the ids 64 b .. 64 b + 63, whoever holds them; the last one has as many members as the others,
// of which those beyond the vocabulary cannot win.
constexpr std::uint32_t kBlockTokens = 64;

// Word w of a stream is word w mod 4 of the counter w / 4: of the block streams by block, of the members' by
// id.
constexpr std::uint32_t kBlockStream = 5;
constexpr std::uint32_t kMemberStream = 6;
constexpr std::uint32_t kFirstMemberStream = 7;

// What a race depends on besides the logits.
struct Key {
    std::uint64_t seed = 0;
    std::uint32_t position = 0;
    std::uint32_t child = 0;

    bool operator==(const Key&) const = default;
};

constexpr std::uint32_t word_of(const Key& key, std::uint32_t stream, std::uint32_t word) {
    return randoms_at(key.seed, key.position, key.child, stream, word / 4)[word % 4];
}

// Shared with the vector form (sampler/race-inl.h), which repeats what is below operation for operation.
namespace constants {
// The bits of sqrt(1/2): mantissas are taken from there to sqrt(2), so that ln(1 + f) has no cancellation
// against the exponent's part.
constexpr std::uint32_t kSqrtHalfBits = 0x3F3504F3U;
constexpr std::uint32_t kOneBits = 0x3F800000U;
constexpr std::uint32_t kMantissaBits = 0x007FFFFFU;
// ln 2 in two parts; the first has ten bits, so that its product with an exponent is exact.
constexpr float kLn2High = 0x1.63p-1F;
constexpr float kLn2Low = -0x1.bd0106p-13F;
// Through Chebyshev nodes of (ln(1 + f) - f + f^2 / 2) / f^3; its own error is 2e-8 of the logarithm.
constexpr std::array<float, 8> kP = {0x1.555554p-2F, -0x1.0000cep-2F, 0x1.999f14p-3F, -0x1.54d03ep-3F,
                                     0x1.231ce6p-3F, -0x1.0a33eap-3F, 0x1.02814ep-3F, -0x1.43b246p-4F};
constexpr float kUnit = 0x1p-32F;
constexpr float kLeastScore = std::numeric_limits<float>::lowest();
constexpr float kBlockRate = 0x1p-6F;  // the least of 64 exponentials has a 64th of one's mean
}  // namespace constants

// ln(y) of a normal, finite y > 0; never falls as y grows (tested for every float that arrives).
constexpr float ln(float y) {
    using namespace constants;
    const std::uint32_t shifted = std::bit_cast<std::uint32_t>(y) + (kOneBits - kSqrtHalfBits);
    const auto k = static_cast<float>(static_cast<std::int32_t>(shifted >> 23U) - 127);
    const float f = std::bit_cast<float>((shifted & kMantissaBits) + kSqrtHalfBits) - 1.0F;
    const float f2 = f * f;
    // In pairs, not Horner's chain: a third of the latency, which is what bounds a loop over it.
    const float low = (kP[0] + kP[1] * f) + (kP[2] + kP[3] * f) * f2;
    const float high = (kP[4] + kP[5] * f) + (kP[6] + kP[7] * f) * f2;
    const float p = low + high * (f2 * f2);
    const float tail = (p * f) * f2 + k * kLn2Low;
    return k * kLn2High + (f + (tail - f2 * 0.5F));
}

// E(r) = -ln(1 - u), u = (r + 0.5) / 2^32. From the nearer end of u's range, and with what 1 - u loses to
// rounding put back: the races are won by the smallest of them.
constexpr float exponential(std::uint32_t r) {
    using namespace constants;
    const bool low = r < 0x80000000U;
    const float q = (static_cast<float>(static_cast<std::int32_t>(low ? r : ~r)) + 0.5F) * kUnit;
    const float complement = 1.0F - q;
    const float lost = q - (1.0F - complement);
    return low ? lost - ln(complement) : 0.0F - ln(q);
}

// When a block's first member arrives.
constexpr float first_arrival(std::uint32_t block_word) {
    return exponential(block_word) * constants::kBlockRate;
}
constexpr std::uint32_t first_member(std::uint32_t first_member_word) {
    return first_member_word >> 26U;
}
// When another member of a block does whose first one came then.
constexpr float later_arrival(float first, std::uint32_t member_word) {
    return first + exponential(member_word);
}

// The arrival of one token, from the randoms on.
constexpr float arrival(const Key& key, std::uint32_t token) {
    const std::uint32_t block = token / kBlockTokens;
    const float first = first_arrival(word_of(key, kBlockStream, block));
    const bool is_first = first_member(word_of(key, kFirstMemberStream, block)) == token % kBlockTokens;
    return is_first ? first : later_arrival(first, word_of(key, kMemberStream, token));
}

// What a token races with, of its adjusted logit: rounded once. No finite logit becomes infinite.
constexpr float entered(double logit) {
    constexpr double kMost = std::numeric_limits<float>::max();
    return static_cast<float>(logit > kMost ? kMost : logit < -kMost ? -kMost : logit);
}

// The largest wins, of equal ones the smallest id's. No operation falls as `logit` grows or the arrival
// shrinks: a block's largest logit with its first arrival bounds all its members. Never -inf, which is left
// to those that do not race.
constexpr float score(float logit, float temperature, float ln_arrival) {
    const float exact = logit / temperature - ln_arrival;
    return exact < constants::kLeastScore ? constants::kLeastScore : exact;
}

// The winner among some of a race's tokens, and of which race: what a reader takes for it depends on nothing
// else. At a temperature of 0 nobody races, and a token's score is its logit.
struct Draw {
    Key key;
    float temperature = 0.0F;
    std::uint32_t token = 0;
    float score = 0.0F;
    float rival = 0.0F;  // none of the others scores more; believed where blocks were sent beside the draw

    constexpr bool beats(const Draw& other) const {
        return score > other.score || (score == other.score && token < other.token);
    }
};

}  // namespace croupier::proto::race
