#include "sampler/gumbel.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace croupier::sampler {

TEST_CASE("the murmur hash has SGLang's published values") {
    STATIC_REQUIRE(murmur_hash(7847, 12345, 1208) == 0xFFFFFFFFU);
    STATIC_REQUIRE(murmur_hash(42, 0, 0) == 0x6F610FE4U);
    STATIC_REQUIRE(murmur_hash(42, 0, 1) == 0x6AC7E06FU);
    STATIC_REQUIRE(murmur_hash(42, 17, 151935) == 0x106B5810U);
    STATIC_REQUIRE(murmur_hash(1099511627783ULL, 1000, 77) == 0xB5DC2F6DU);
    STATIC_REQUIRE(murmur_hash(0, 0, 0) == 0x8134CDF8U);
}

TEST_CASE("SGLang's noise is at most 22.1807 and finite at both ends of the hash") {
    CHECK(sglang_noise(0xFFFFFFFFU) == Approx(22.18071).epsilon(1e-6));
    CHECK(sglang_noise(0xFFFFFFFEU) < sglang_noise(0xFFFFFFFFU) + 1e-6);
    CHECK(sglang_noise(0) == Approx(-std::log(std::numeric_limits<double>::max())));
    CHECK(sglang_noise(0x80000000U) == Approx(-std::log(-std::log(0x80000000U / 4294967295.0))));
}

TEST_CASE("vLLM's noise is -ln(-ln(1 - u)) to within its own series' error, and finite at both ends") {
    for (std::uint64_t hash = 0; hash < 1ULL << 32U; hash += 99991) {
        const double u = (static_cast<double>(hash) + 0.5) * 0x1p-32;
        const double exact = -std::log(-std::log1p(-u));
        const auto noise = static_cast<double>(vllm_noise(static_cast<std::uint32_t>(hash)));
        if (u < 0.99) CHECK(std::abs(noise - exact) < 1e-5);
    }
    CHECK(static_cast<double>(vllm_noise(0)) == Approx(22.873858).epsilon(1e-6));
    CHECK(static_cast<double>(vllm_noise(0xFFFFFFFFU)) == Approx(-std::log(24 * std::log(2.0))));
}

}  // namespace croupier::sampler
