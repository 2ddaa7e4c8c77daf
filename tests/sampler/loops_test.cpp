// Loops at the end of an output, compared with their definition.
#include "sampler/loops.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>

#include "proto/param_ranges.h"

namespace croupier::sampler {
namespace {

constexpr int kCases = 300'000;

// As text, so that a tail that stands n times in a row is an end of the whole.
bool ends_with_loop(const std::string& output, const proto::SamplingParams& params) {
    for (std::size_t period = std::max<std::size_t>(params.loop_min_period, 1);
         period <= params.loop_max_period && period <= output.size(); ++period) {
        std::string copies;
        for (int i = 0; i < params.loop_count; ++i) copies += output.substr(output.size() - period);
        if (output.ends_with(copies)) return true;
    }
    return false;
}

proto::SamplingParams loops(unsigned longest, unsigned count, unsigned shortest = 0) {
    proto::SamplingParams params;
    params.loop_max_period = static_cast<std::uint16_t>(longest);
    params.loop_min_period = static_cast<std::uint16_t>(shortest);
    params.loop_count = static_cast<std::uint8_t>(count);
    return params;
}

}  // namespace

TEST_CASE("loops are found where a tail stands as often as asked for, and nowhere else") {
    std::mt19937_64 random(80);
    int found = 0;
    for (int i = 0; i < kCases; ++i) {
        const auto longest = static_cast<unsigned>(1 + random() % 12);
        const auto params = loops(longest, 2 + static_cast<unsigned>(random() % 4),
                                  static_cast<unsigned>(random() % (longest + 1)));
        // A text that repeats from some place on, but for a mistake now and then.
        std::string text;
        for (std::uint64_t size = random() % 20; size > 0; --size)
            text += static_cast<char>('a' + random() % 3);
        const std::size_t period = 1 + random() % 12;
        for (std::uint64_t size = random() % 50; size > 0 && text.size() >= period; --size)
            text += random() % 40 == 0 ? 'x' : text[text.size() - period];
        text += text.empty() || random() % 8 == 0 ? 'b' : text[text.size() - std::min(period, text.size())];
        const std::vector<std::int32_t> output(text.begin(), text.end() - 1);
        const bool expected = ends_with_loop(text, params);
        found += expected ? 1 : 0;
        if (completes_loop(params, output, text.back()) == expected) continue;
        CAPTURE(text, params.loop_max_period, params.loop_min_period, int{params.loop_count});
        REQUIRE(completes_loop(params, output, text.back()) == expected);
    }
    CHECK(found > kCases / 10);
    CHECK(found < kCases / 2);
}

TEST_CASE("loops of many tokens are found, and those with one token wrong anywhere are not") {
    std::mt19937_64 random(81);
    int found = 0;
    for (int i = 0; i < 3'000; ++i) {
        // A tail within which another repeats, as often as not.
        const std::size_t inner = 1 + random() % 90;
        const std::size_t period = random() % 2 == 0 ? inner : inner * (1 + random() % 4);
        std::string text(random() % 100, 'y');
        for (std::size_t at = 0; at < 600; ++at) {
            const char first = at + 1 == period ? 'z' : static_cast<char>('a' + at % inner % 17);
            text += at < period ? first : text[text.size() - period];
        }
        // Mistakes are few, and most of them are where a block of comparisons ends.
        const std::size_t at =
            random() % 3 == 0 ? random() % 600 : (1 + random() % 8) * 64 + random() % 3 - 1;
        if (random() % 2 == 0) text[text.size() - 1 - at] = 'x';
        const auto longest = static_cast<unsigned>(1 + random() % 256);
        const auto params = loops(longest, 2 + static_cast<unsigned>(random() % 8),
                                  static_cast<unsigned>(random() % (longest + 1)));
        const std::vector<std::int32_t> output(text.begin(), text.end() - 1);
        const bool expected = ends_with_loop(text, params);
        found += expected ? 1 : 0;
        if (completes_loop(params, output, text.back()) == expected) continue;
        CAPTURE(text, params.loop_max_period, params.loop_min_period, int{params.loop_count});
        REQUIRE(completes_loop(params, output, text.back()) == expected);
    }
    CHECK(found > 600);
    CHECK(found < 2'400);
}

TEST_CASE("the longest loops are found with their last token, not one earlier") {
    const auto params = loops(256, 16);
    std::vector<std::int32_t> output(256 * 16 - 1);
    for (std::size_t i = 0; i < output.size(); ++i) output[i] = static_cast<std::int32_t>(i % 256);
    CHECK_FALSE(proto::param_fault(params));
    CHECK(proto::param_fault(loops(256, 17)));
    CHECK(proto::param_fault(loops(17, 241)));
    CHECK(completes_loop(params, output, 255));
    CHECK_FALSE(completes_loop(params, output, 254));
    CHECK_FALSE(completes_loop(params, std::span(output).subspan(1), 255));
    output[0] = 7;
    CHECK_FALSE(completes_loop(params, output, 255));
    CHECK_FALSE(completes_loop(params, {}, 1));
    CHECK(completes_loop(loops(256, 2, 256), std::span(output).last(511), 255));
}

}  // namespace croupier::sampler
