// What a lean step sends of a column, from what its request asks for.

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "vocabulary_wants.h"

using namespace croupier;
using request::Want;
using request::test::want_at;
using request::test::want_in;

namespace {

constexpr float kAnything = std::numeric_limits<float>::infinity();
constexpr float kRounding = 0.01F;

proto::SamplingParams with_min_p() {
    proto::SamplingParams params;
    params.temperature = 0.5;
    params.min_p = 0.1;
    return params;
}

}  // namespace

TEST_CASE("a min-p alone tells how far below the largest entry blocks are sent") {
    const auto reach = static_cast<float>(0.5 * std::log(10.0));
    CHECK(want_at(with_min_p(), 100).reach == Approx(reach + kRounding));
    CHECK(want_at(with_min_p(), 100'000).reach == Approx(reach + kRounding));
    proto::SamplingParams params = with_min_p();
    params.min_p = 1.0;
    CHECK(want_at(params, 100).reach == kRounding);
    params.min_p = 0.0;
    CHECK(want_at(params, 100).reach == kAnything);
}

TEST_CASE("mild penalties widen a min-p's reach by the history that they count") {
    proto::SamplingParams params = with_min_p();
    params.repetition_penalty = 1.1;
    params.frequency_penalty = 0.1;
    const auto reach = static_cast<float>(0.5 * std::log(10.0));
    CHECK(want_at(params, 300).reach == Approx(reach + 3.0F + kRounding));
    CHECK(want_at(params, 301).reach == Approx(reach + 6.0F + kRounding));
    CHECK(want_at(params, 1500).reach == Approx(reach + 6.0F + kRounding));
    CHECK(want_at(params, 1501).reach == kAnything);
}

TEST_CASE("what may take the largest entry down by any amount leaves a min-p's reach open") {
    const auto reach_with = [](auto set) {
        proto::SamplingParams params = with_min_p();
        set(params);
        return want_at(params, 100).reach;
    };
    CHECK(reach_with([](auto& params) { params.repetition_penalty = 1.3; }) == kAnything);
    CHECK(reach_with([](auto& params) { params.repetition_penalty = 0.9; }) == kAnything);
    CHECK(reach_with([](auto& params) { params.frequency_penalty = 1.0; }) == kAnything);
    CHECK(reach_with([](auto& params) { params.presence_penalty = -0.1; }) == kAnything);
    CHECK(reach_with([](auto& params) { params.dry_multiplier = 0.8; }) == kAnything);
    CHECK(reach_with([](auto& params) {
              params.dry_multiplier = 0.8;
              params.dry_penalty_last_n = 0;
          }) == reach_with([](auto&) {}));
    CHECK(reach_with([](auto& params) { params.logprobs = 5; }) == kAnything);
    CHECK(want_at(with_min_p(), 100, {false, true}).reach == kAnything);
}

TEST_CASE("who races after penalties that lower has the best of its race beside what is sent") {
    const auto draws = [](auto set, const request::Rules& rules = {}) {
        proto::SamplingParams params;
        params.flags = proto::kNoLogprob;
        params.temperature = 0.8;
        set(params);
        const request::Wants flags = want_at(params, 100, rules).flags;
        return flags & (Want::draw | Want::racers);
    };
    constexpr request::Wants kBeside = Want::racers;
    CHECK(draws([](auto&) {}) == Want::draw);
    CHECK(draws([](auto& params) { params.top_p = 0.9; }) == kBeside);
    CHECK(draws([](auto& params) { params.xtc_probability = 0.5; }) == kBeside);
    CHECK(draws([](auto& params) { params.repetition_penalty = 1.1; }) == kBeside);
    CHECK(draws([](auto& params) { params.dry_multiplier = 0.8; }) == kBeside);
    CHECK(draws([](auto& params) { params.flags = 0; }) == kBeside);
    CHECK(draws([](auto& params) { params.top_k = 50; }) == request::Wants());
    CHECK(draws([](auto& params) { params.min_p = 0.1; }) == kBeside);
    CHECK(draws([](auto& params) {
              params.temperature = 0.0;
              params.repetition_penalty = 1.1;
          }) == request::Wants());
    CHECK(draws([](auto& params) { params.repetition_penalty = 0.9; }) == request::Wants());
    CHECK(draws([](auto& params) { params.frequency_penalty = -0.1; }) == request::Wants());
    CHECK(draws([](auto& params) { params.presence_penalty = -0.1; }) == request::Wants());
    // Of what biases may raise the values are sent.
    CHECK(draws([](auto& params) { params.top_p = 0.9; }, {false, true}) == kBeside);
    // What stands whole is not ranked for a race.
    CHECK(draws([](auto& params) { params.top_p = 0.9; }, {true, false}) == request::Wants());
    CHECK(draws([](auto& params) { params.typical_p = params.top_p = 0.9; }) == request::Wants());
    // Its temperature is not known where the draw is made.
    CHECK(draws([](auto& params) { params.dynatemp_range = 0.5; }) == request::Wants());
    CHECK(draws([](auto& params) { params.mirostat = 2; }) == request::Wants());
    CHECK(draws([](auto& params) { params.rng = proto::Rng::shvs; }) == request::Wants());
}

TEST_CASE("one filter that a row's spread decides needs no whole row, where few logits are changed") {
    const auto flags = [](auto set, const request::Rules& rules = {}, std::uint32_t history = 100) {
        proto::SamplingParams params;
        params.flags = proto::kNoLogprob;
        params.temperature = 0.8;
        set(params);
        return want_at(params, history, rules).flags & (Want::whole | Want::spread);
    };
    constexpr request::Wants kSpread = Want::spread;
    constexpr request::Wants kWhole = Want::whole;
    CHECK(flags([](auto& params) { params.top_n_sigma = 1.0; }) == kSpread);
    CHECK(flags([](auto& params) { params.typical_p = 0.9; }) == kSpread);
    CHECK(flags([](auto& params) { params.dynatemp_range = 0.5; }) == kSpread);
    // What few deviations leave is listed.
    CHECK(flags([](auto& params) { params.top_n_sigma = params.dynatemp_range = 0.5; }) == kSpread);
    CHECK(flags([](auto& params) { params.top_n_sigma = 1.0, params.top_p = 0.9; }) == kSpread);
    CHECK(flags([](auto& params) { params.top_n_sigma = 2.5, params.top_p = 0.9; }) == kWhole);
    CHECK(flags([](auto& params) { params.typical_p = 1e-4; }) == kWhole);
    CHECK(flags([](auto& params) { params.xtc_probability = 1.0, params.xtc_threshold = 1e-5; }) == kWhole);
    const auto penalised = [](auto& params) { params.typical_p = 0.9, params.repetition_penalty = 1.1; };
    CHECK(flags(penalised) == kSpread);
    CHECK(flags(penalised, {}, 600) == kSpread);
    CHECK(flags(penalised, {}, 601) == kWhole);
    CHECK(flags([&](auto& params) { penalised(params), params.penalty_last_n = 64; }, {}, 601) == kSpread);
    CHECK(flags([](auto& params) { params.top_n_sigma = 1.0; }, {false, true}) == kWhole);
    CHECK(flags([](auto& params) { params.top_n_sigma = 1.0; }, {true, false}) == kWhole);
    CHECK(flags([](auto& params) {
              params.temperature = 0.0;
              params.top_n_sigma = 1.0;
          }) == request::Wants());
}

TEST_CASE(
    "typical behind what leaves few tokens, or above a temperature of 1, is not decided by the spread") {
    const auto flags = [](auto set) {
        proto::SamplingParams params;
        params.flags = proto::kNoLogprob;
        params.typical_p = 0.9;
        set(params);
        return want_at(params, 100).flags & (Want::whole | Want::spread);
    };
    CHECK(flags([](auto& params) { params.top_k = 40; }) == request::Wants());
    CHECK(flags([](auto& params) { params.min_p = 0.05; }) == request::Wants());
    CHECK(flags([](auto& params) { params.top_p = 0.9; }) == Want::whole);
    CHECK(flags([](auto& params) { params.temperature = 1.0; }) == Want::spread);
    CHECK(flags([](auto& params) { params.temperature = 1.5; }) == Want::whole);
}

TEST_CASE("what is written and does nothing sends a column no other way") {
    const auto as_without = [](auto set, auto idle) {
        proto::SamplingParams params;
        params.temperature = 0.8;
        set(params);
        const request::LeanWant without = want_at(params, 100);
        idle(params);
        const request::LeanWant with = want_at(params, 100);
        return with.flags == without.flags && with.by_maximum == without.by_maximum &&
               with.by_race == without.by_race && with.reach == without.reach;
    };
    const auto top_p = [](auto& params) { params.top_p = 0.95; };
    const auto sigma = [](auto& params) { params.top_n_sigma = 1.0; };
    const auto nothing = [](auto&) {};
    const auto whole_top_k = [](auto& params) { params.top_k = 151936; };
    CHECK(as_without(top_p, whole_top_k));
    CHECK(as_without(sigma, whole_top_k));
    CHECK(as_without(nothing, whole_top_k));
    CHECK(as_without([](auto& params) { params.repetition_penalty = 1.1; }, whole_top_k));
    const auto penalties_of_none = [](auto& params) {
        params.repetition_penalty = 1.1;
        params.penalty_last_n = 0;
    };
    CHECK(as_without(sigma, penalties_of_none));
    CHECK(as_without(nothing, penalties_of_none));
    CHECK(as_without(nothing, [](auto& params) {
        params.xtc_probability = 1.0;
        params.xtc_threshold = 1.0;
    }));
    CHECK(as_without([](auto& params) { params.temperature = 0.0; },
                     [](auto& params) { params.mirostat = 2; }));
}

TEST_CASE("how many blocks go by their largest entry and how many by the race") {
    struct Shares {
        std::uint32_t by_maximum;
        std::uint32_t by_race;
        bool operator==(const Shares& other) const {
            return by_maximum == other.by_maximum && by_race == other.by_race;
        }
    };
    const auto shares = [](std::uint32_t room, auto set) {
        proto::SamplingParams params;
        params.flags = proto::kNoLogprob;
        params.temperature = 0.8;
        set(params);
        const auto want = want_in(params, 100, {}, {room});
        return Shares{want.by_maximum, want.by_race};
    };
    const auto penalties = [](auto& params) { params.repetition_penalty = 1.1; };
    const auto top_p = [](auto& params) { params.top_p = 0.95; };
    const auto sigma = [](auto& params) { params.top_n_sigma = 1.0; };
    CHECK(shares(96, penalties) == Shares{4, 84});
    CHECK(shares(96, top_p) == Shares{32, 84});
    CHECK(shares(96, sigma) == Shares{72, 84});
    const auto raises = [](auto& params) { params.repetition_penalty = 0.9; };
    CHECK(shares(96, raises) == Shares{4, 72});
    CHECK(shares(96, [](auto& params) { params.dynatemp_range = 0.5; }) == Shares{32, 64});
    CHECK(shares(96, [](auto& params) { params.temperature = 0.0; }) == Shares{4, 0});
    // Of a small room the race has a part, too, where its blocks are sent.
    CHECK(shares(32, raises) == Shares{4, 28});
    CHECK(shares(32, [](auto& params) { params.dynatemp_range = 0.5; }) == Shares{24, 8});
    const auto lists = [](auto& params) {
        params.flags = 0, params.logprobs = 80, params.repetition_penalty = 0.9;
    };
    CHECK(shares(96, lists) == Shares{256, 48});
    CHECK(shares(32, lists) == Shares{256, 16});
}

TEST_CASE("what looks at the best entries one by one has a list of them") {
    const auto listed = [](auto set, const request::Rules& rules = {}) {
        proto::SamplingParams params;
        params.flags = proto::kNoLogprob;
        params.temperature = 0.6;
        set(params);
        const auto want = want_at(params, 100, rules);
        return want.flags.has(Want::best_entries) ? want.by_maximum : 0;
    };
    CHECK(listed([](auto&) {}) == 0);
    CHECK(listed([](auto& params) { params.top_k = 500; }) == 500);
    CHECK(listed([](auto& params) { params.top_k = 768; }) == 768);
    CHECK(listed([](auto& params) { params.top_k = 769; }) == 0);
    CHECK(listed([](auto& params) { params.top_k = 50, params.repetition_penalty = 1.1; }) == 139);
    CHECK(listed([](auto& params) { params.top_k = 50; }, {false, true}) == 139);
    CHECK(listed([](auto& params) { params.min_p = 0.05; }) == 576);
    CHECK(listed([](auto& params) { params.temperature = 0.0; }) == 0);
    CHECK(listed([](auto& params) { params.temperature = 0.0, params.frequency_penalty = 0.1; }) == 65);
    CHECK(listed([](auto& params) { params.mirostat = 1; }) == 100);
    CHECK(listed([](auto& params) { params.mirostat = 1, params.repetition_penalty = 1.1; }) == 214);
    CHECK(listed([](auto& params) { params.mirostat = 2; }) == 576);
    const auto with_support = [](auto& params) { params.top_p = 0.9, params.support = 5; };
    CHECK(listed(with_support) == 576);
    // What they weigh after penalties is told by blocks.
    CHECK(listed([&](auto& params) { with_support(params), params.repetition_penalty = 1.1; }) == 0);
    CHECK(listed([](auto& params) { params.mirostat = 2, params.repetition_penalty = 1.1; }) == 0);
    const auto twenty = [](auto& params) { params.flags = 0, params.logprobs = 20; };
    CHECK(listed(twenty) == 256);
    CHECK(listed([&](auto& params) { twenty(params), params.temperature = 0.0; }) == 20);
    CHECK(listed([&](auto& params) { twenty(params), params.top_p = 0.9; }) == 0);
}

TEST_CASE("a spread is summed at the temperature by which its filter weighs") {
    proto::SamplingParams params;
    params.temperature = 0.5;
    params.typical_p = 0.9;
    CHECK(want_at(params, 100).scale == 2.0);
    params.typical_p = 1.0;
    params.dynatemp_range = 0.1;
    CHECK(want_at(params, 100).scale == 1.0);
}

TEST_CASE("few columns of a step have blocks by the race in place of its best tokens") {
    const auto left = [](std::size_t racing) {
        std::vector<request::LeanWant> wants(200);
        for (std::size_t i = 0; i < wants.size(); ++i) {
            wants[i].flags = Want::sum_at_one;
            if (i < racing) wants[i].flags.add(Want::racers);
            wants[i].by_maximum = 32;
            wants[i].by_race = static_cast<std::uint16_t>(i < racing ? 112 : 5);
        }
        request::spare_few_racers(wants, 96);
        std::size_t racers = 0;
        for (std::size_t i = 0; i < wants.size(); ++i) {
            const bool sends = wants[i].flags.has(Want::racers);
            CHECK(wants[i].flags.has(Want::sum_at_one));
            CHECK(wants[i].by_maximum == 32);
            CHECK(wants[i].by_race == (sends ? 112 : i < racing ? 64 : 5));
            racers += sends ? 1 : 0;
        }
        return racers;
    };
    CHECK(left(1) == 0);
    CHECK(left(47) == 0);
    CHECK(left(48) == 48);
    CHECK(left(200) == 200);
}
