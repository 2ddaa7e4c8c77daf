// How many cases a run compares, and which: the environment may ask for more than every run can afford.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>

namespace croupier::sampler::test {

inline std::uint64_t cases_to_compare(const char* variable, std::uint64_t usually) {
    const char* asked = std::getenv(variable);
    return asked != nullptr ? std::strtoull(asked, nullptr, 10) : usually;
}

inline std::mt19937_64 seeded(std::uint64_t usual) {
    const char* seed = std::getenv("CROUPIER_ORACLE_SEED");
    return std::mt19937_64(seed != nullptr ? std::strtoull(seed, nullptr, 10) : usual);
}

}  // namespace croupier::sampler::test
