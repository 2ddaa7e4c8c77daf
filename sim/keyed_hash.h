// Pseudo-random numbers as a function of a key, the same in every process.
#pragma once

#include <cstdint>

namespace croupier::sim {

// The finaliser of splitmix64.
constexpr std::uint64_t mix(std::uint64_t value) {
    value += 0x9E3779B97F4A7C15ULL;
    value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    value = (value ^ (value >> 27U)) * 0x94D049BB133111EBULL;
    return value ^ (value >> 31U);
}

template <typename... Parts>
constexpr std::uint64_t key_of(std::uint64_t seed, Parts... parts) {
    std::uint64_t key = mix(seed);
    ((key = mix(key ^ static_cast<std::uint64_t>(parts))), ...);
    return key;
}

class KeyedStream {
  public:
    explicit constexpr KeyedStream(std::uint64_t key) : key_(key) {}

    constexpr std::uint64_t next() { return mix(key_ + count_++); }
    constexpr std::uint32_t below(std::uint32_t bound) {
        return static_cast<std::uint32_t>((next() >> 32U) * bound >> 32U);
    }
    constexpr double unit() { return static_cast<double>(next() >> 11U) * 0x1p-53; }
    constexpr bool chance(double probability) { return unit() < probability; }

  private:
    std::uint64_t key_;
    std::uint64_t count_ = 0;
};

}  // namespace croupier::sim
