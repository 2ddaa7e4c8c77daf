// The race's arrivals: its logarithm and exponential, and every instruction set's bits beside proto/race.h.
#include "sampler/race_arrivals.h"

#include <algorithm>
#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "instruction_sets.h"
#include "proto/race.h"

namespace croupier::sampler::test {
namespace {

namespace race = proto::race;
using proto::Dtype;
using race::Key;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr std::uint32_t kMostSize = 300;
// Behind what a pass may write: a NaN that no pass makes.
constexpr std::uint32_t kUntouched = 0x7FABCDEFU;

double relative_error(std::uint32_t r) {
    const double exact = -std::log1p(-(static_cast<double>(r) + 0.5) * 0x1p-32);
    return std::abs(static_cast<double>(race::exponential(r)) - exact) / exact;
}

Key random_key(std::mt19937_64& generator) {
    const std::uint64_t words = generator();
    return {generator(), static_cast<std::uint32_t>(words) >> (words >> 59U),
            static_cast<std::uint32_t>(words >> 32U) % 1025U};
}

bool same_bits(std::span<const float> one, std::span<const float> other) {
    return std::equal(one.begin(), one.end(), other.begin(), other.end(), [](float a, float b) {
        return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
    });
}

// With room behind, for the check that it stays as it is.
struct Guarded {
    explicit Guarded(std::size_t count) : values(count + 16, std::bit_cast<float>(kUntouched)) {}

    std::span<float> span() { return std::span(values).first(values.size() - 16); }
    std::vector<float> taken() const {
        const auto is_untouched = [](float value) {
            return std::bit_cast<std::uint32_t>(value) == kUntouched;
        };
        REQUIRE(std::all_of(values.end() - 16, values.end(), is_untouched));
        return {values.begin(), values.end() - 16};
    }

    std::vector<float> values;
};

float first_of(const Key& key, std::uint32_t block) {
    return race::first_arrival(race::word_of(key, race::kBlockStream, block));
}

float ln_arrival(const Key& key, std::uint32_t token) {
    return race::ln(race::arrival(key, token));
}

void check_first_arrivals(const Key& key, std::uint32_t blocks) {
    std::vector<float> ln_first(blocks);
    for (std::uint32_t b = 0; b < blocks; ++b) ln_first[b] = race::ln(first_of(key, b));
    Guarded made(blocks);
    make_first_arrivals(key, made.span());
    REQUIRE(same_bits(made.taken(), ln_first));
}

// Any ids: also the largest there are, and the same one twice.
std::vector<std::uint32_t> random_tokens(std::uint32_t count, std::mt19937_64& generator) {
    std::vector<std::uint32_t> tokens(count);
    for (std::uint32_t& token : tokens) {
        token = static_cast<std::uint32_t>(generator()) >> generator() % 32;
    }
    return tokens;
}

void check_arrivals(const Key& key, const std::vector<std::uint32_t>& tokens) {
    std::vector<float> expected(tokens.size());
    std::transform(tokens.begin(), tokens.end(), expected.begin(),
                   [&](std::uint32_t token) { return ln_arrival(key, token); });
    Guarded made(tokens.size());
    make_arrivals(key, tokens, made.span());
    REQUIRE(same_bits(made.taken(), expected));
}

// Anything that is not NaN, -inf in one of eight.
float random_logit(std::mt19937_64& generator) {
    const auto bits = static_cast<std::uint32_t>(generator());
    switch (generator() % 8) {
        case 0:
            return kMinusInfinity;
        case 1: {
            const auto any = std::bit_cast<float>(bits);
            return std::isfinite(any) ? any : 0.0F;
        }
        default:
            return static_cast<float>(static_cast<std::int32_t>(bits)) * 0x1p-28F;
    }
}

float random_temperature(std::mt19937_64& generator) {
    constexpr std::array<float, 5> kTemperatures = {0.01F, 0.3F, 0.7F, 1.0F, 1.9F};
    return kTemperatures[generator() % kTemperatures.size()];
}

void check_bounds(std::uint32_t blocks, std::mt19937_64& generator) {
    const Key key = random_key(generator);
    const float temperature = random_temperature(generator);
    std::vector<float> maxima(blocks);
    std::generate(maxima.begin(), maxima.end(), [&] { return random_logit(generator); });
    std::vector<float> ln_first(blocks);
    for (std::uint32_t b = 0; b < blocks; ++b) ln_first[b] = race::ln(first_of(key, b));
    BoundedValues values{random_logit(generator), random_logit(generator)};
    if (generator() % 3 == 0) values.floor = kMinusInfinity;
    if (generator() % 3 == 0) values.ceiling = std::numeric_limits<float>::infinity();
    std::vector<float> expected(blocks, kMinusInfinity);
    for (std::uint32_t b = 0; b < blocks; ++b) {
        if (maxima[b] < values.floor) continue;
        expected[b] = race::score(std::min(maxima[b], values.ceiling), temperature, ln_first[b]);
    }
    Guarded made(blocks);
    const float most = bound_blocks(maxima, ln_first, temperature, values, made.span());
    REQUIRE(same_bits(made.taken(), expected));
    REQUIRE(most == *std::max_element(expected.begin(), expected.end()));

    const float floor = expected[generator() % blocks];
    std::vector<std::uint32_t> reaching;
    for (std::uint32_t b = 0; b < blocks; ++b) {
        if (expected[b] >= floor) reaching.push_back(b);
    }
    std::vector<std::uint32_t> listed(blocks + 1, kUntouched);
    REQUIRE(list_reaching(expected, floor, std::span(listed).first(blocks)) == reaching.size());
    REQUIRE(std::equal(reaching.begin(), reaching.end(), listed.begin()));
    REQUIRE(listed.back() == kUntouched);
}

// A finite number or -inf in each code.
std::vector<std::uint32_t> random_codes(Dtype dtype, std::mt19937_64& generator) {
    std::vector<std::uint32_t> codes(kBlock);
    for (std::uint32_t& code : codes) {
        const float logit = random_logit(generator);
        code = std::bit_cast<std::uint32_t>(logit) >> (dtype == Dtype::bf16 ? 16U : 0U);
        if (dtype != Dtype::fp16) continue;
        code = logit == kMinusInfinity ? negative_infinity_code(dtype)
                                       : static_cast<std::uint32_t>(generator()) & 0xBFFFU;
    }
    return codes;
}

void check_opened(Dtype dtype, std::mt19937_64& generator) {
    const Key key = random_key(generator);
    const float temperature = random_temperature(generator);
    const auto block = static_cast<std::uint32_t>(generator() % (1U << 26U)) >> generator() % 26;
    const std::vector<std::uint32_t> codes = random_codes(dtype, generator);
    const std::size_t each = proto::element_bytes(dtype);
    std::vector<std::byte> elements(kBlock * each);
    for (std::size_t i = 0; i < kBlock; ++i) std::memcpy(elements.data() + i * each, &codes[i], each);
    OpenedBlock expected{};
    for (std::uint32_t i = 0; i < kBlock; ++i) {
        expected.values[i] = value_of_code(dtype, codes[i]);
        expected.ln_arrivals[i] = ln_arrival(key, block * kBlock + i);
        expected.scores[i] = race::score(expected.values[i], temperature, expected.ln_arrivals[i]);
    }
    // The least score is one of the scores: it is reached.
    const float least = expected.scores[generator() % kBlock];
    std::uint64_t reached = 0;
    for (std::uint32_t i = 0; i < kBlock; ++i) {
        reached |= std::uint64_t{expected.scores[i] >= least} << i;
    }
    OpenedBlock opened{};
    REQUIRE(open_block(dtype, elements.data(), key, block, temperature, least, opened) == reached);
    REQUIRE(same_bits(opened.values, expected.values));
    REQUIRE(same_bits(opened.ln_arrivals, expected.ln_arrivals));
    REQUIRE(same_bits(opened.scores, expected.scores));
}

}  // namespace

TEST_CASE("the race's logarithm never falls, over every float from 2^-41 to 64") {
    const auto first = std::bit_cast<std::uint32_t>(0x1p-41F);
    const auto last = std::bit_cast<std::uint32_t>(64.0F);
    std::array<float, 4096> logarithms{};
    float before = kMinusInfinity;
    std::uint64_t fallen = 0;
    for (std::uint32_t bits = first; bits <= last; bits += logarithms.size()) {
        for (std::uint32_t i = 0; i < logarithms.size(); ++i) {
            logarithms[i] = race::ln(std::bit_cast<float>(bits + i));
        }
        fallen += logarithms[0] >= before ? 0U : 1U;
        for (std::uint32_t i = 1; i < logarithms.size(); ++i) {
            fallen += logarithms[i] >= logarithms[i - 1] ? 0U : 1U;
        }
        before = logarithms.back();
    }
    CHECK(fallen == 0);
}

TEST_CASE("the race's exponential is above zero, and within 3e-7 of its formula") {
    double worst = 0.0;
    std::uint32_t worst_at = 0;
    bool all_above = true;
    const auto look = [&](std::uint32_t r) {
        all_above = all_above && race::exponential(r) > 0.0F;
        const double error = relative_error(r);
        if (error <= worst) return;
        worst = error;
        worst_at = r;
    };
    constexpr std::uint32_t kEnd = 1U << 16U;
    for (std::uint32_t i = 0; i < kEnd; ++i) {
        look(i);
        look(~i);
        look((1U << 31U) - kEnd / 2 + i);
    }
    for (std::uint64_t r = 0; r < 1ULL << 32U; r += 499) look(static_cast<std::uint32_t>(r));
    INFO("worst " << worst << " at " << worst_at);
    CHECK(all_above);
    CHECK(worst < 3e-7);
}

TEST_CASE("no arrival comes before its block's first, which is a 64th of an exponential") {
    std::mt19937_64 generator(1);
    for (int i = 0; i < 1000; ++i) {
        const Key key = random_key(generator);
        const auto block = static_cast<std::uint32_t>(generator()) >> 6U;
        std::uint32_t first = 0;
        for (std::uint32_t member = 0; member < kBlock; ++member) {
            const float arrival = race::arrival(key, block * kBlock + member);
            REQUIRE(arrival >= first_of(key, block));
            first += arrival == first_of(key, block) ? 1U : 0U;
        }
        REQUIRE(first >= 1);
    }
}

TEST_CASE("every instruction set makes proto/race.h's bits, at every size up to 300") {
    for (const std::int64_t target : instruction_sets()) {
        const InstructionSet with(target);
        INFO(name_of_instruction_set(target));
        std::mt19937_64 generator(2);
        for (std::uint32_t size = 1; size <= kMostSize; ++size) {
            INFO("size " << size);
            check_first_arrivals(random_key(generator), size);
            check_arrivals(random_key(generator), random_tokens(size, generator));
            for (int i = 0; i < 4; ++i) check_bounds(size, generator);
        }
        for (int i = 0; i < 500; ++i) {
            check_opened(Dtype::bf16, generator);
            check_opened(Dtype::fp16, generator);
            check_opened(Dtype::fp32, generator);
        }
    }
}

TEST_CASE("every instruction set makes proto/race.h's bits, of 10^8 arrivals each", "[.race-100M]") {
    constexpr std::uint32_t kKeys = 1000;
    constexpr std::uint32_t kIds = 1563 * kBlock;  // a little above 100,000
    STATIC_REQUIRE(std::uint64_t{kKeys} * kIds >= 100000000);
    const std::vector<std::int64_t> targets = instruction_sets();
    std::vector<std::uint64_t> different(targets.size());
    std::mt19937_64 generator(3);
    std::vector<std::uint32_t> tokens(kIds);
    std::vector<float> expected(kIds);
    std::vector<float> made(kIds);
    for (std::uint32_t i = 0; i < kKeys; ++i) {
        const Key key = random_key(generator);
        // Blocks from anywhere on, so that both the tokens' pass and the blocks' can make them.
        const std::uint32_t first = (static_cast<std::uint32_t>(generator()) >> i % 26) / kBlock * kBlock;
        std::iota(tokens.begin(), tokens.end(), first);
        std::transform(tokens.begin(), tokens.end(), expected.begin(),
                       [&](std::uint32_t token) { return ln_arrival(key, token); });
        for (std::size_t t = 0; t < targets.size(); ++t) {
            const InstructionSet with(targets[t]);
            check_first_arrivals(key, kIds / kBlock);
            make_arrivals(key, tokens, made);
            different[t] += same_bits(made, expected) ? 0U : 1U;
            const std::vector<float> logits(kBlock);
            OpenedBlock opened{};
            for (std::uint32_t at = 0; at < kIds; at += kBlock) {
                open_block(Dtype::fp32, reinterpret_cast<const std::byte*>(logits.data()), key,
                           tokens[at] / kBlock, 1.0F, 0.0F, opened);
                const auto of_block = std::span(expected).subspan(at, kBlock);
                different[t] += same_bits(opened.ln_arrivals, of_block) ? 0U : 1U;
            }
        }
    }
    for (std::size_t t = 0; t < targets.size(); ++t) {
        INFO(name_of_instruction_set(targets[t]));
        CHECK(different[t] == 0);
    }
}

}  // namespace croupier::sampler::test
