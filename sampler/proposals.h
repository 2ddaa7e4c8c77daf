// What an untruncated draw proposes and what decides on it: the same numbers wherever it is computed
// (docs/semantics.md, docs/decisions/0006).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "proto/philox.h"
#include "sampler/mass.h"

namespace croupier::sampler {

// Proposals are made by blocks of so many tokens: an entry of a tile's summary stands for one.
constexpr std::uint32_t kProposalBlock = 64;

// Of the best blocks, this many at most, every token is bounded apart; how far below the best one, in units
// of the temperature, a block may lie to be one of them.
constexpr std::uint32_t kMostHeadBlocks = 32;
constexpr double kHeadReaches[] = {8.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0};

// A row of real logits needs 1 to 30 proposals. One that all of these miss has its best tokens forbidden.
constexpr std::uint32_t kMostProposals = 1024;

// Up to this many allowed tokens are weighed one by one: most proposals would miss them.
constexpr std::uint32_t kFewAllowed = 1024;

// The lowest maximum of a block that still belongs to the head.
inline float head_floor(const Weigher& weigher, double reach) {
    return static_cast<float>(weigher.maximum - reach / weigher.scale);
}

// A bound of a token's mass, at most 6 % above it, that costs a few operations: 2^t <= (1 + f) 2^n for t = n
// + f, which is what the bits of a float that hold n and f say. Each operation is rounded once, in this
// order, wherever it is computed.
struct MassBound {
    float reference;  // at most the largest logit of all
    float slope;      // in bits a unit of logit

    explicit MassBound(const Weigher& weigher)
        : reference(static_cast<float>(weigher.maximum)), slope(static_cast<float>(weigher.scale * kLog2E)) {
        if (static_cast<double>(reference) > weigher.maximum) {
            reference = std::nextafter(reference, -std::numeric_limits<float>::infinity());
        }
    }

    Mass of(float value) const {
        // A wrong summary may leave a value above the reference, or a NaN: they count as something, once.
        const float bits = std::min(std::max(kLeastBits, (value - reference) * slope), 0.0F);
        const auto code = static_cast<std::int32_t>((bits + kBias) * kMantissa);
        return mass_of_weight(static_cast<double>(std::bit_cast<float>(code)));
    }

    static constexpr double kLog2E = 0x1.71547652b82fep+0;
    static constexpr float kLeastBits = -100.0F;  // far below the last mass above 0, of -44
    // A float's, and 2^-10 to outweigh the roundings.
    static constexpr float kBias = 127.0F + 0x1p-10F;
    static constexpr float kMantissa = 0x1p23F;
};

struct ProposalRandoms {
    std::uint32_t choice;
    std::uint64_t verdict;
};

// The n-th proposal's; the first one's choice is the draw's own random (stream 0) instead.
constexpr ProposalRandoms proposal_randoms(std::uint64_t seed, std::uint32_t position, std::uint32_t child,
                                           std::uint32_t n) {
    constexpr std::uint32_t kProposalStream = 1;
    const proto::PhiloxCounter words = proto::randoms_at(seed, position, child, kProposalStream, n);
    return {words[0], std::uint64_t{words[3]} << 32U | words[2]};
}

// With the probability actual / proposed, exactly but for 2^-64.
constexpr bool accepts(std::uint64_t verdict, Mass proposed, Mass actual) {
    return static_cast<Mass>((static_cast<Wide>(proposed) * verdict) >> 64U) < actual;
}

}  // namespace croupier::sampler
