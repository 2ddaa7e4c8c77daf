// The best tokens of a race, as whoever has the row finds them.
#pragma once

#include <cstdint>
#include <span>

namespace croupier::proto {

struct Racer {
    std::uint32_t token;
    float score;
    float logit;
    // What the entries before it in canonical order weigh, each exp(x * scale), in units of the largest one's
    // weight; NaN: it was not summed.
    float before;

    constexpr bool beats(const Racer& other) const {
        return score > other.score || (score == other.score && token < other.token);
    }
};
constexpr std::uint32_t kMostRacers = 7;

struct alignas(16) Racers {
    Racer best[kMostRacers];  // each beats the next
    float rival;              // none of the others scores more
    std::uint32_t count;      // above 0
    std::uint32_t unused[2];

    // None, where the count cannot be right: it may be another process's.
    constexpr std::span<const Racer> all() const { return {best, count <= kMostRacers ? count : 0}; }
};
static_assert(sizeof(Racers) == 128);

}  // namespace croupier::proto
