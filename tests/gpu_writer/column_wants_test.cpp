// What a lean step sends of a column, from what its request asks for.
#include "gpu_writer/column_wants.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

using namespace croupier;

namespace {

constexpr float kAnything = std::numeric_limits<float>::infinity();

proto::SamplingParams with_min_p() {
    proto::SamplingParams params;
    params.temperature = 0.5;
    params.min_p = 0.1;
    return params;
}

// Of lists too many blocks to name.
gpu_writer::LeanWant want_at(const proto::SamplingParams& params, std::uint32_t history,
                             const proto::RequestRules& rules = {}) {
    gpu_writer::BlockRoom room{96};
    if (rules.lists) room.named.reset();
    return gpu_writer::want_of(params, {7, history, 0}, rules, 151936, room);
}

}  // namespace

TEST_CASE("a min-p alone tells how far below the largest entry blocks are sent") {
    const auto reach = static_cast<float>(0.5 * std::log(10.0));
    CHECK(want_at(with_min_p(), 100).reach == Approx(reach));
    CHECK(want_at(with_min_p(), 100'000).reach == Approx(reach));
    proto::SamplingParams params = with_min_p();
    params.min_p = 1.0;
    CHECK(want_at(params, 100).reach == 0.0F);
    params.min_p = 0.0;
    CHECK(want_at(params, 100).reach == kAnything);
}

TEST_CASE("mild penalties widen a min-p's reach by the history that they count") {
    proto::SamplingParams params = with_min_p();
    params.repetition_penalty = 1.1;
    params.frequency_penalty = 0.1;
    const auto reach = static_cast<float>(0.5 * std::log(10.0));
    CHECK(want_at(params, 300).reach == Approx(reach + 3.0F));
    CHECK(want_at(params, 301).reach == Approx(reach + 6.0F));
    CHECK(want_at(params, 1500).reach == Approx(reach + 6.0F));
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
    const auto draws = [](auto set, const proto::RequestRules& rules = {}) {
        proto::SamplingParams params;
        params.flags = proto::kNoLogprob;
        params.temperature = 0.8;
        set(params);
        const std::uint32_t flags = want_at(params, 100, rules).flags;
        return flags & (gpu_writer::kDraw | gpu_writer::kSendRacers);
    };
    constexpr std::uint32_t kBeside = gpu_writer::kSendRacers;
    CHECK(draws([](auto&) {}) == gpu_writer::kDraw);
    CHECK(draws([](auto& params) { params.top_p = 0.9; }) == kBeside);
    CHECK(draws([](auto& params) { params.xtc_probability = 0.5; }) == kBeside);
    CHECK(draws([](auto& params) { params.repetition_penalty = 1.1; }) == kBeside);
    CHECK(draws([](auto& params) { params.dry_multiplier = 0.8; }) == kBeside);
    CHECK(draws([](auto& params) { params.flags = 0; }) == kBeside);
    CHECK(draws([](auto& params) { params.top_k = 50; }) == 0);
    CHECK(draws([](auto& params) { params.min_p = 0.1; }) == 0);
    CHECK(draws([](auto& params) {
              params.temperature = 0.0;
              params.repetition_penalty = 1.1;
          }) == 0);
    CHECK(draws([](auto& params) { params.repetition_penalty = 0.9; }) == 0);
    CHECK(draws([](auto& params) { params.frequency_penalty = -0.1; }) == 0);
    CHECK(draws([](auto& params) { params.presence_penalty = -0.1; }) == 0);
    CHECK(draws([](auto& params) { params.top_p = 0.9; }, {false, true}) == 0);
    // What stands whole is not ranked for a race.
    CHECK(draws([](auto& params) { params.top_p = 0.9; }, {true, false}) == 0);
    CHECK(draws([](auto& params) { params.typical_p = params.top_p = 0.9; }) == 0);
    // Its temperature is not known where the draw is made.
    CHECK(draws([](auto& params) { params.dynatemp_range = 0.5; }) == 0);
    CHECK(draws([](auto& params) { params.mirostat = 2; }) == 0);
    CHECK(draws([](auto& params) { params.rng = proto::Rng::shvs; }) == 0);
}

TEST_CASE("one filter that a row's spread decides needs no whole row, where nothing changes a logit") {
    const auto flags = [](auto set, const proto::RequestRules& rules = {}) {
        proto::SamplingParams params;
        params.flags = proto::kNoLogprob;
        params.temperature = 0.8;
        set(params);
        return want_at(params, 100, rules).flags & (gpu_writer::kWhole | gpu_writer::kSumSpread);
    };
    constexpr std::uint32_t kSpread = gpu_writer::kSumSpread;
    constexpr std::uint32_t kWhole = gpu_writer::kWhole;
    CHECK(flags([](auto& params) { params.top_n_sigma = 1.0; }) == kSpread);
    CHECK(flags([](auto& params) { params.typical_p = 0.9; }) == kSpread);
    CHECK(flags([](auto& params) { params.dynatemp_range = 0.5; }) == kSpread);
    CHECK(flags([](auto& params) { params.top_n_sigma = params.dynatemp_range = 0.5; }) == kWhole);
    CHECK(flags([](auto& params) {
              params.top_n_sigma = 1.0;
              params.top_p = 0.9;
          }) == kWhole);
    CHECK(flags([](auto& params) {
              params.typical_p = 0.9;
              params.repetition_penalty = 1.1;
          }) == kWhole);
    CHECK(flags([](auto& params) { params.top_n_sigma = 1.0; }, {false, true}) == kWhole);
    CHECK(flags([](auto& params) { params.top_n_sigma = 1.0; }, {true, false}) == kWhole);
    CHECK(flags([](auto& params) {
              params.temperature = 0.0;
              params.top_n_sigma = 1.0;
          }) == 0);
}

TEST_CASE(
    "typical behind what leaves few tokens, or above a temperature of 1, is not decided by the spread") {
    const auto flags = [](auto set) {
        proto::SamplingParams params;
        params.flags = proto::kNoLogprob;
        params.typical_p = 0.9;
        set(params);
        return want_at(params, 100).flags & (gpu_writer::kWhole | gpu_writer::kSumSpread);
    };
    CHECK(flags([](auto& params) { params.top_k = 40; }) == 0);
    CHECK(flags([](auto& params) { params.min_p = 0.05; }) == 0);
    CHECK(flags([](auto& params) { params.top_p = 0.9; }) == gpu_writer::kWhole);
    CHECK(flags([](auto& params) { params.temperature = 1.0; }) == gpu_writer::kSumSpread);
    CHECK(flags([](auto& params) { params.temperature = 1.5; }) == gpu_writer::kWhole);
}

TEST_CASE("what is written and does nothing sends a column no other way") {
    const auto as_without = [](auto set, auto idle) {
        proto::SamplingParams params;
        params.temperature = 0.8;
        set(params);
        const gpu_writer::LeanWant without = want_at(params, 100);
        idle(params);
        const gpu_writer::LeanWant with = want_at(params, 100);
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
        const auto want = gpu_writer::want_of(params, {7, 100, 0}, {}, 151936, {room});
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
    CHECK(shares(96, [](auto& params) { params.top_k = 50; }) == Shares{57, 0});
    CHECK(shares(96, [](auto& params) { params.min_p = 0.05; }) == Shares{64, 0});
    CHECK(shares(96, [](auto& params) { params.temperature = 0.0, params.frequency_penalty = 0.1; }) ==
          Shares{32, 0});
    // Of a small room the race has a part, too, where its blocks are sent.
    CHECK(shares(32, raises) == Shares{4, 28});
    CHECK(shares(32, [](auto& params) { params.dynatemp_range = 0.5; }) == Shares{24, 8});
    const auto lists = [](auto& params) {
        params.flags = 0, params.logprobs = 80, params.repetition_penalty = 0.9;
    };
    CHECK(shares(96, lists) == Shares{84, 12});
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
        std::vector<gpu_writer::LeanWant> wants(200);
        for (std::size_t i = 0; i < wants.size(); ++i) {
            wants[i].flags = gpu_writer::kSumAtOne | (i < racing ? gpu_writer::kSendRacers : 0);
            wants[i].by_maximum = 32;
            wants[i].by_race = i < racing ? 112 : 5;
        }
        gpu_writer::spare_few_racers(wants, 96);
        std::size_t racers = 0;
        for (std::size_t i = 0; i < wants.size(); ++i) {
            const bool sends = (wants[i].flags & gpu_writer::kSendRacers) != 0;
            CHECK((wants[i].flags & gpu_writer::kSumAtOne) != 0);
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

TEST_CASE("what a first filter lets through needs no whole row, whatever comes behind it") {
    const auto whole = [](auto set) {
        proto::SamplingParams params;
        params.flags = proto::kNoLogprob;
        params.temperature = 0.8;
        set(params);
        return (want_at(params, 100).flags & gpu_writer::kWhole) != 0;
    };
    const auto with_each = [&](auto behind) {
        std::vector<bool> answers;
        answers.push_back(whole([&](auto& params) { behind(params); }));
        answers.push_back(whole([&](auto& params) { behind(params), params.top_k = 40; }));
        answers.push_back(whole([&](auto& params) { behind(params), params.min_p = 0.05; }));
        answers.push_back(whole([&](auto& params) { behind(params), params.top_p = 0.9; }));
        return answers;
    };
    using Answers = std::vector<bool>;
    CHECK(with_each([](auto& params) { params.mirostat = 1; }) == Answers{false, false, false, true});
    CHECK(with_each([](auto& params) { params.mirostat = 2; }) == Answers{false, false, false, true});
    CHECK(with_each([](auto& params) { params.adaptive_target = 0.3; }) == Answers{true, false, false, true});
    CHECK(with_each([](auto& params) { params.support = 10; }) == Answers{true, false, false, true});
    CHECK(with_each([](auto& params) {
              params.flags = 0, params.logprob_mode = proto::LogprobMode::processed;
          }) == Answers{false, false, false, true});
    CHECK(with_each([](auto& params) { params.rng = proto::Rng::vllm; }) ==
          Answers{true, false, false, true});
    CHECK(with_each([](auto& params) { params.xtc_probability = 0.5; }) ==
          Answers{false, false, false, true});
    // The entropy comes before these filters.
    CHECK(with_each([](auto& params) { params.dynatemp_range = 0.5; }) == Answers{false, true, true, true});
    // What is far below the best is most of a flat row.
    CHECK(whole([](auto& params) { params.adaptive_target = 0.3, params.min_p = 1e-6; }));
    CHECK(whole([](auto& params) { params.mirostat = 2, params.min_p = 1e-6; }));
    CHECK_FALSE(whole([](auto& params) { params.min_p = 1e-6; }));
    CHECK(whole([](auto& params) { params.support = 5, params.min_p = 0.02, params.temperature = 1.5; }));
    // Of a nucleus that is listed likewise.
    CHECK_FALSE(
        whole([](auto& params) { params.support = 5, params.top_p = 0.9, params.temperature = 0.6; }));
    CHECK_FALSE(whole(
        [](auto& params) { params.xtc_probability = 0.5, params.top_p = 0.9, params.temperature = 0.6; }));
    CHECK_FALSE(whole([](auto& params) { params.support = 10, params.temperature = 0.0; }));
}

TEST_CASE("a request's own order says what its first filter is") {
    using proto::Step;
    const auto want = [](proto::StepOrder order, auto set) {
        proto::SamplingParams params;
        params.flags = proto::kNoLogprob;
        params.temperature = 0.5;
        params.order = order;
        set(params);
        return want_at(params, 100);
    };
    const auto filters = [](auto& params) {
        params.top_k = 40;
        params.top_p = 0.9;
        params.min_p = 0.1;
    };
    const auto is_whole = [](const gpu_writer::LeanWant& of) { return (of.flags & gpu_writer::kWhole) != 0; };
    const auto by_top_k = want({Step::top_k, Step::top_p, Step::min_p, Step::temperature}, filters);
    CHECK_FALSE(is_whole(by_top_k));
    CHECK(by_top_k.by_maximum == 46);
    CHECK(by_top_k.reach == kAnything);
    // A min-p before the temperature weighs at 1.
    const auto by_min_p = want({Step::min_p, Step::top_k, Step::temperature}, filters);
    CHECK(by_min_p.reach == Approx(std::log(10.0)));
    const auto cooled = want({Step::temperature, Step::min_p, Step::top_k}, filters);
    CHECK(cooled.reach == Approx(0.5 * std::log(10.0)));
    CHECK(is_whole(want({Step::top_p, Step::top_k, Step::temperature}, filters)));
    // A filter that is not in the order filters nothing.
    const auto alone = want({Step::temperature, Step::top_p}, filters);
    CHECK_FALSE(is_whole(alone));
    CHECK(alone.scale == 2.0);
    CHECK((alone.flags & gpu_writer::kSumAtScale) != 0);
    const auto untempered = want({Step::top_p}, filters);
    CHECK(untempered.scale == 1.0);
    CHECK(untempered.temperature == 1.0F);
    // What is filtered first and penalised then has two values.
    const auto penalised = [](auto& params) { params.top_p = 0.9, params.repetition_penalty = 1.1; };
    CHECK(is_whole(want({Step::top_p, Step::penalties, Step::temperature}, penalised)));
    CHECK_FALSE(is_whole(want({Step::penalties, Step::top_p, Step::temperature}, penalised)));
}

TEST_CASE("what is allowed alone or lifted is sent by its name") {
    const auto want = [](const proto::RequestRules& rules, std::optional<std::uint16_t> named, auto set) {
        proto::SamplingParams params;
        params.flags = proto::kNoLogprob;
        set(params);
        return gpu_writer::want_of(params, {7, 100, 0}, rules, 151936, {96, named});
    };
    const auto is_whole = [](const gpu_writer::LeanWant& of) { return (of.flags & gpu_writer::kWhole) != 0; };
    const auto nothing = [](auto&) {};
    const proto::RequestRules lists{true, false};
    const auto listed = want(lists, 40, nothing);
    CHECK(listed.flags == 0);
    CHECK(listed.named == 40);
    CHECK(listed.by_maximum == 0);
    CHECK(listed.by_race == 0);
    // Another rank has all of them.
    CHECK(want(lists, 0, nothing).flags == 0);
    CHECK(is_whole(want(lists, std::nullopt, nothing)));
    CHECK(is_whole(want(lists, 4, [](auto& params) { params.rng = proto::Rng::sglang; })));
    CHECK_FALSE(is_whole(want(lists, 4, [](auto& params) { params.mirostat = 2, params.support = 9; })));
    const auto with_logprob = want(lists, 60, [](auto& params) { params.flags = 0; });
    CHECK(with_logprob.by_maximum == 4);
    // The drawn token's rank is that among all tokens.
    CHECK(is_whole(want(lists, 60, [](auto& params) { params.flags = 0, params.logprobs = 1; })));
    CHECK_FALSE(is_whole(want(lists, 60, [](auto& params) {
        params.flags = 0, params.logprobs = 1;
        params.logprob_mode = proto::LogprobMode::processed;
    })));
    const proto::RequestRules lifts{false, true};
    const auto lifted = want(lifts, 20, [](auto& params) { params.top_p = 0.9, params.temperature = 1.5; });
    CHECK(lifted.named == 20);
    CHECK(lifted.named + lifted.by_maximum + lifted.by_race <= 96);
    CHECK((lifted.flags & gpu_writer::kWeighBlocks) == 0);
    CHECK(want(lifts, std::nullopt, nothing).named == 0);
    CHECK_FALSE(is_whole(want(lifts, std::nullopt, nothing)));
}

TEST_CASE("a top-n sigma before what cuts is told by the spread, where nothing changes a logit") {
    const auto want = [](auto set, const proto::RequestRules& rules = {}) {
        proto::SamplingParams params;
        params.flags = proto::kNoLogprob;
        params.temperature = 0.5;
        params.top_n_sigma = 1.0;
        set(params);
        return want_at(params, 100, rules);
    };
    constexpr std::uint32_t kAsked = gpu_writer::kWhole | gpu_writer::kSumSpread;
    const auto by_min_p = want([](auto& params) { params.min_p = 0.1; });
    CHECK((by_min_p.flags & kAsked) == gpu_writer::kSumSpread);
    CHECK(by_min_p.reach == Approx(0.5 * std::log(10.0)));
    const auto by_top_k = want([](auto& params) { params.top_k = 40, params.top_p = 0.9; });
    CHECK((by_top_k.flags & kAsked) == gpu_writer::kSumSpread);
    CHECK(by_top_k.by_maximum == 46);
    const auto penalised = [](auto& params) { params.min_p = 0.1, params.repetition_penalty = 1.1; };
    CHECK((want(penalised).flags & kAsked) == gpu_writer::kWhole);
    CHECK((want([](auto& params) { params.top_k = 40; }, {false, true}).flags & kAsked) ==
          gpu_writer::kWhole);
    CHECK((want([](auto& params) { params.top_p = 0.9; }).flags & kAsked) == gpu_writer::kWhole);
    CHECK((want([](auto& params) { params.dynatemp_range = 0.2, params.min_p = 0.1; }).flags & kAsked) ==
          gpu_writer::kWhole);
    // Behind penalties that come behind the sigma a token has two values.
    const auto late = [](auto& params) {
        using proto::Step;
        params.order = {Step::top_n_sigma, Step::penalties, Step::min_p};
        params.min_p = 0.1;
        params.repetition_penalty = 1.1;
    };
    CHECK((want(late).flags & kAsked) == gpu_writer::kWhole);
}

TEST_CASE("a processed log-prob of all tokens is told by what they weigh at the request's temperature") {
    const auto want = [](auto set, const proto::RequestRules& rules = {}) {
        proto::SamplingParams params;
        params.temperature = 0.5;
        params.logprob_mode = proto::LogprobMode::processed;
        set(params);
        return want_at(params, 100, rules);
    };
    constexpr std::uint32_t kAsked = gpu_writer::kWhole | gpu_writer::kSumAtOne | gpu_writer::kSumAtScale;
    const auto alone = want([](auto&) {});
    CHECK((alone.flags & kAsked) == gpu_writer::kSumAtScale);
    CHECK(alone.scale == 2.0);
    CHECK((want([](auto& params) { params.temperature = 0.0; }).flags & kAsked) == gpu_writer::kSumAtOne);
    CHECK((want([](auto& params) { params.top_k = 40; }).flags & kAsked) == 0);
    const auto is_whole = [](const gpu_writer::LeanWant& of) { return (of.flags & gpu_writer::kWhole) != 0; };
    CHECK(is_whole(want([](auto& params) { params.repetition_penalty = 1.1; })));
    CHECK(is_whole(want([](auto& params) { params.mirostat = 2; })));
    CHECK(is_whole(want([](auto&) {}, {false, true})));
    CHECK(is_whole(want([](auto& params) { params.temperature = 0.0, params.presence_penalty = 0.1; })));
    CHECK(is_whole(want([](auto& params) { params.support = 5; })));
    CHECK_FALSE(is_whole(want([](auto& params) { params.temperature = 0.0, params.support = 5; })));
}

TEST_CASE("mirostat that aims far down, or behind a long history of penalties, needs the whole row") {
    const auto whole = [](std::uint32_t history, auto set) {
        proto::SamplingParams params;
        params.mirostat = 2;
        params.mirostat_tau = 5.0;
        set(params);
        return (want_at(params, history).flags & gpu_writer::kWhole) != 0;
    };
    CHECK_FALSE(whole(100'000, [](auto&) {}));
    CHECK(whole(100, [](auto& params) { params.mirostat_tau = 8.0; }));
    CHECK_FALSE(whole(2000, [](auto& params) { params.repetition_penalty = 1.1; }));
    CHECK(whole(2001, [](auto& params) { params.repetition_penalty = 1.1; }));
    CHECK(whole(100, [](auto& params) { params.repetition_penalty = 0.9; }));
}
