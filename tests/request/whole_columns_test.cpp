// Which columns stand whole in a lean step, and what those that do not want.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "vocabulary_wants.h"

using namespace croupier;
using request::Want;
using request::test::want_at;
using request::test::want_in;

namespace {

constexpr float kAnything = std::numeric_limits<float>::infinity();
constexpr double kRounding = 0.01;

bool is_whole(const request::LeanWant& of) {
    return of.flags.has(Want::whole);
}

}  // namespace

TEST_CASE("what a first filter lets through needs no whole row, whatever comes behind it") {
    const auto whole = [](auto set) {
        proto::SamplingParams params;
        params.flags = proto::kNoLogprob;
        params.temperature = 0.8;
        set(params);
        return is_whole(want_at(params, 100));
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
    // The entropy comes before these filters: the row's spread tells it.
    CHECK(with_each([](auto& params) { params.dynatemp_range = 0.5; }) == Answers{false, false, false, true});
    // But not to the last bit, on which what these keep may depend.
    CHECK(with_each([](auto& params) { params.dynatemp_range = 0.5, params.xtc_probability = 1.0; }) ==
          Answers{true, true, true, true});
    CHECK(with_each([](auto& params) { params.dynatemp_range = 0.5, params.typical_p = 0.9; }) ==
          Answers{true, true, true, true});
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
    CHECK(whole([](auto& params) { params.support = 5, params.top_p = 0.99999, params.temperature = 0.6; }));
    CHECK_FALSE(whole([](auto& params) { params.support = 10, params.temperature = 0.0; }));
}

TEST_CASE("behind a dynamic temperature an XTC needs the whole row where it acts") {
    proto::SamplingParams params;
    params.flags = proto::kNoLogprob;
    params.dynatemp_range = 0.5;
    params.min_p = 0.05;
    params.xtc_probability = 0.5;
    int acting = 0;
    for (std::uint32_t position = 0; position < 100; ++position) {
        const bool acts = request::xtc_acts(params, position);
        CHECK(is_whole(want_at(params, position)) == acts);
        acting += acts ? 1 : 0;
    }
    CHECK(acting > 20);
    CHECK(acting < 80);
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
    const auto by_top_k = want({Step::top_k, Step::top_p, Step::min_p, Step::temperature}, filters);
    CHECK_FALSE(is_whole(by_top_k));
    CHECK(by_top_k.by_maximum == 40);
    CHECK(by_top_k.reach == kAnything);
    // A min-p before the temperature weighs at 1.
    const auto by_min_p = want({Step::min_p, Step::top_k, Step::temperature}, filters);
    CHECK(by_min_p.reach == Approx(std::log(10.0) + kRounding));
    const auto cooled = want({Step::temperature, Step::min_p, Step::top_k}, filters);
    CHECK(cooled.reach == Approx(0.5 * std::log(10.0) + kRounding));
    CHECK(is_whole(want({Step::top_p, Step::top_k, Step::temperature}, filters)));
    // A filter that is not in the order filters nothing.
    const auto alone = want({Step::temperature, Step::top_p}, filters);
    CHECK_FALSE(is_whole(alone));
    CHECK(alone.scale == 2.0);
    CHECK(alone.flags.has(Want::sum_at_scale));
    const auto untempered = want({Step::top_p}, filters);
    CHECK(untempered.scale == 1.0);
    CHECK(untempered.temperature == 1.0F);
    // What is filtered first and penalised then has two values.
    const auto penalised = [](auto& params) { params.top_p = 0.9, params.repetition_penalty = 1.1; };
    CHECK(is_whole(want({Step::top_p, Step::penalties, Step::temperature}, penalised)));
    CHECK_FALSE(is_whole(want({Step::penalties, Step::top_p, Step::temperature}, penalised)));
}

TEST_CASE("what is allowed alone or lifted is sent by its name") {
    const auto want = [](const request::Rules& rules, std::optional<std::uint16_t> named, auto set) {
        proto::SamplingParams params;
        params.flags = proto::kNoLogprob;
        set(params);
        return want_in(params, 100, rules, {96, named});
    };
    const auto nothing = [](auto&) {};
    const request::Rules lists{true, false};
    const auto listed = want(lists, 1000, nothing);
    CHECK(listed.flags == request::Wants());
    CHECK(listed.named == 1000);
    CHECK(listed.by_maximum == 0);
    CHECK(listed.by_race == 0);
    // Another rank has all of them.
    CHECK(want(lists, 0, nothing).flags == request::Wants());
    CHECK(is_whole(want(lists, std::nullopt, nothing)));
    CHECK(want(lists, 4, [](auto& params) { params.rng = proto::Rng::sglang; }).flags == request::Wants());
    CHECK_FALSE(is_whole(want(lists, 4, [](auto& params) { params.mirostat = 2, params.support = 9; })));
    const auto with_logprob = want(lists, 60, [](auto& params) { params.flags = 0; });
    CHECK(with_logprob.by_maximum == 4);
    // The drawn token's rank is that among all tokens, which the best entries tell if it is one of them.
    const auto ranked = want(lists, 60, [](auto& params) { params.flags = 0, params.logprobs = 1; });
    CHECK(ranked.flags == (Want::sum_at_one | Want::best_entries));
    CHECK(ranked.by_maximum == 576);
    const auto among_allowed = want(lists, 60, [](auto& params) {
        params.flags = 0, params.logprobs = 1;
        params.logprob_mode = proto::LogprobMode::processed;
    });
    CHECK(among_allowed.flags == request::Wants());
    const request::Rules lifts{false, true};
    const auto lifted = want(lifts, 300, [](auto& params) { params.top_p = 0.9, params.temperature = 1.5; });
    CHECK(lifted.named == 300);
    CHECK(lifted.flags.has(Want::racers));
    CHECK_FALSE(lifted.flags.has(Want::block_weights));
    const auto raised =
        want(lifts, 300, [](auto& params) { params.temperature = 0.7, params.repetition_penalty = 0.9; });
    CHECK(raised.by_maximum + raised.by_race + request::blocks_for_named(300) <= 96);
    CHECK(want(lifts, std::nullopt, nothing).named == 0);
    CHECK_FALSE(is_whole(want(lifts, std::nullopt, nothing)));
}

TEST_CASE("a top-n sigma before what cuts is told by the spread, where few logits are changed") {
    const auto want = [](auto set, const request::Rules& rules = {}) {
        proto::SamplingParams params;
        params.flags = proto::kNoLogprob;
        params.temperature = 0.5;
        params.top_n_sigma = 1.0;
        set(params);
        return want_at(params, 100, rules);
    };
    constexpr request::Wants kAsked = Want::whole | Want::spread;
    const auto by_min_p = want([](auto& params) { params.min_p = 0.1; });
    CHECK((by_min_p.flags & kAsked) == Want::spread);
    CHECK(by_min_p.reach == Approx(0.5 * std::log(10.0) + kRounding));
    const auto by_top_k = want([](auto& params) { params.top_k = 40, params.top_p = 0.9; });
    CHECK((by_top_k.flags & kAsked) == Want::spread);
    CHECK(by_top_k.by_maximum == 40);
    const auto penalised = [](auto& params) { params.min_p = 0.1, params.repetition_penalty = 1.1; };
    CHECK((want(penalised).flags & kAsked) == Want::spread);
    CHECK((want([](auto& params) { params.top_k = 40; }, {false, true}).flags & kAsked) == Want::whole);
    // What few deviations leave is listed for what comes behind it.
    const auto dynamic = [](auto& params) { params.dynatemp_range = 0.2, params.min_p = 0.1; };
    CHECK((want([](auto& params) { params.top_p = 0.9; }).flags & kAsked) == Want::spread);
    CHECK((want(dynamic).flags & kAsked) == Want::spread);
    CHECK((want([](auto& params) { params.top_p = 0.9, params.top_n_sigma = 2.5; }).flags & kAsked) ==
          Want::whole);
    // Penalties behind the sigma change what it left.
    const auto late = [](auto& params) {
        using proto::Step;
        params.order = {Step::top_n_sigma, Step::penalties, Step::min_p};
        params.min_p = 0.1;
        params.repetition_penalty = 1.1;
    };
    CHECK((want(late).flags & kAsked) == Want::spread);
}

TEST_CASE("what penalties raise of a long history is weighed in the whole row") {
    const auto whole = [](std::uint32_t history, auto set) {
        proto::SamplingParams params;
        params.flags = proto::kNoLogprob;
        params.temperature = 0.7;
        params.frequency_penalty = -1.0;
        set(params);
        return is_whole(want_at(params, history));
    };
    const auto top_p = [](auto& params) { params.top_p = 0.9; };
    CHECK_FALSE(whole(600, top_p));
    CHECK(whole(601, top_p));
    CHECK_FALSE(whole(601, [](auto& params) { params.top_p = 0.9, params.penalty_last_n = 64; }));
    CHECK_FALSE(whole(601, [](auto& params) { params.top_p = 0.9, params.frequency_penalty = 1.0; }));
    CHECK_FALSE(whole(100'000, [](auto& params) { params.min_p = 0.1; }));
}

TEST_CASE("a mask changes what is told of a row, but where ids of a list are all that is looked at") {
    const auto mask_row = [](const request::Rules& rules, auto set) {
        proto::SamplingParams params;
        params.flags = proto::kNoLogprob;
        set(params);
        const auto plan = request::test::plan_at(params, 100, rules);
        request::LeanWant want = request::want_of(plan, params, {96, std::uint16_t{4}});
        request::put_under_mask(want, plan, params, 9);
        return want.mask_row;
    };
    constexpr request::Rules kLists{true, false};
    const auto nothing = [](auto&) {};
    CHECK(mask_row({}, nothing) == 9);
    CHECK(mask_row({}, [](auto& params) { params.support = 10; }) == 0);
    CHECK(mask_row(kLists, nothing) == 0);
    CHECK(mask_row(kLists, [](auto& params) { params.flags = 0; }) == 9);
    CHECK(mask_row(kLists, [](auto& params) {
              params.flags = 0, params.logprob_mode = proto::LogprobMode::processed;
          }) == 0);
}

TEST_CASE("a processed log-prob of all tokens is told by what they weigh at the request's temperature") {
    const auto want = [](auto set, const request::Rules& rules = {}) {
        proto::SamplingParams params;
        params.temperature = 0.5;
        params.logprob_mode = proto::LogprobMode::processed;
        set(params);
        return want_at(params, 100, rules);
    };
    constexpr request::Wants kAsked = Want::whole | Want::sum_at_one | Want::sum_at_scale;
    const auto alone = want([](auto&) {});
    CHECK((alone.flags & kAsked) == Want::sum_at_scale);
    CHECK(alone.scale == 2.0);
    CHECK((want([](auto& params) { params.temperature = 0.0; }).flags & kAsked) == Want::sum_at_one);
    CHECK((want([](auto& params) { params.top_k = 40; }).flags & kAsked) == request::Wants());
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
        return is_whole(want_at(params, history));
    };
    CHECK_FALSE(whole(100'000, [](auto&) {}));
    CHECK(whole(100, [](auto& params) { params.mirostat_tau = 8.0; }));
    CHECK_FALSE(whole(2000, [](auto& params) { params.repetition_penalty = 1.1; }));
    CHECK(whole(2001, [](auto& params) { params.repetition_penalty = 1.1; }));
    CHECK(whole(100, [](auto& params) { params.repetition_penalty = 0.9; }));
    // Version 1 looks at the best alone.
    CHECK_FALSE(whole(100'000, [](auto& params) { params.mirostat = 1, params.repetition_penalty = 0.9; }));
}
