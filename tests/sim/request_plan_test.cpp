#include "sim/request_plan.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "proto/param_ranges.h"
#include "proto/sampling.h"

namespace croupier::sim {
namespace {

SimOptions small_options() {
    SimOptions options;
    options.vocab = 5000;
    options.batch = 8;
    options.steps = 2000;
    return options;
}

template <typename Property>
double share(const RequestPlan& plan, Property&& property) {
    std::uint32_t count = 0;
    for (std::uint32_t i = 0; i < plan.size(); ++i) count += property(plan[i]) ? 1U : 0U;
    return static_cast<double>(count) / plan.size();
}

bool has_own_order(const Request& request) {
    return request.params.order != proto::StepOrder{};
}

bool is_rare(const Request& request) {
    const proto::SamplingParams& params = request.params;
    const bool filter = params.typical_p < 1.0 || params.xtc_probability > 0.0 || params.top_n_sigma > 0.0;
    const bool list = !request.allowed_ids.empty() || !request.bad_words.empty();
    const bool draw = params.mirostat != 0 || params.adaptive_target >= 0.0 || params.rng != proto::Rng::race;
    return filter || list || draw || params.dry_multiplier > 0.0 || has_own_order(request);
}

}  // namespace

TEST_CASE("a request depends neither on the amount of work nor on the engine") {
    const SimOptions options = small_options();
    SimOptions other = options;
    other.steps = 100;
    other.batch = 3;
    other.tp = 4;
    other.tile = 1;
    other.arrival_rate = 10.0;
    const RequestPlan plan(options);
    const RequestPlan shorter(other);
    REQUIRE(shorter.size() < plan.size());
    for (std::uint32_t i = 0; i < shorter.size(); ++i) {
        CHECK(shorter[i].params.seed == plan[i].params.seed);
        CHECK(shorter[i].params.max_tokens == plan[i].params.max_tokens);
        CHECK(shorter[i].stop_ids == plan[i].stop_ids);
        CHECK(shorter.prompt(i) == plan.prompt(i));
    }
}

TEST_CASE("the plan has exactly as many requests as the work needs") {
    const SimOptions options = small_options();
    const RequestPlan plan(options);
    const std::uint64_t budget = std::uint64_t{options.steps} * options.batch;
    CHECK(plan.most_tokens() >= budget);
    CHECK(plan.most_tokens() - plan[plan.size() - 1].params.max_tokens < budget);
}

TEST_CASE("the mixed requests exercise every control") {
    const RequestPlan plan(small_options());
    const auto plain = [](const Request& r) {
        return r.params.temperature > 0.0 && r.params.top_k == 0 && r.params.top_p == 1.0 &&
               r.params.min_p == 0.0 && !is_rare(r);
    };
    const auto nucleus_only = [](const Request& r) {
        return r.params.top_k == 0 && r.params.top_p < 1.0 && !is_rare(r);
    };
    CHECK(share(plan, plain) == Approx(0.15).margin(0.06));
    CHECK(share(plan, nucleus_only) == Approx(0.05).margin(0.04));
    CHECK(share(plan, [](const Request& r) { return r.params.temperature == 0.0; }) > 0.0);
    CHECK(share(plan, [](const Request& r) { return r.masked; }) > 0.0);
    CHECK(share(plan, [](const Request& r) { return !r.bias.empty(); }) > 0.0);
    CHECK(share(plan, [](const Request& r) { return !r.stop_ids.empty(); }) > 0.0);
    CHECK(share(plan, [](const Request& r) { return r.params.min_tokens > 0; }) > 0.0);
    CHECK(share(plan, [](const Request& r) { return r.params.repetition_penalty > 1.0; }) > 0.0);
    CHECK(share(plan, [](const Request& r) { return r.poisoned_at != kNeverPoisoned; }) > 0.0);
}

TEST_CASE("the mixed requests set every parameter that this test does not leave out") {
    const std::set<std::string> left_out = {"dynatemp_exponent", "logprobs",        "support",
                                            "loop_count",        "loop_max_period", "loop_min_period"};
    const RequestPlan plan(small_options());
    proto::for_each_sampling_field([&](const auto& field) {
        INFO(field.name);
        const bool set = share(plan, [&](const Request& r) {
                             return r.params.*field.member != proto::SamplingParams{}.*field.member;
                         }) > 0.0;
        CHECK(set != (left_out.count(field.name) == 1));
    });
}

TEST_CASE("the demo and running daemons get no requests that are intended to fail") {
    SimOptions options = small_options();
    const auto planned = [&] {
        return share(RequestPlan(options), [](const Request& r) { return r.may_fail(); });
    };
    CHECK(planned() > 0.0);
    options.demo = true;
    CHECK(planned() == 0.0);
    options.demo = false;
    options.endpoint = "ipc:///run/croupier/control.sock";
    CHECK(planned() == 0.0);
}

TEST_CASE("the mixed requests exercise every rare control, and their lists fit the session's limits") {
    const RequestPlan plan(small_options());
    const auto some = [&](auto&& property) { return share(plan, property) > 0.0; };
    CHECK(share(plan, is_rare) == Approx(0.15).margin(0.06));
    CHECK(some([](const Request& r) { return r.params.typical_p < 1.0; }));
    CHECK(some([](const Request& r) { return r.params.xtc_probability > 0.0; }));
    CHECK(some([](const Request& r) { return r.params.top_n_sigma > 0.0; }));
    CHECK(some([](const Request& r) { return r.params.dry_multiplier > 0.0 && !r.dry_breakers.empty(); }));
    CHECK(some([](const Request& r) { return !r.bad_words.empty(); }));
    CHECK(some([](const Request& r) { return !r.allowed_ids.empty(); }));
    CHECK(some([](const Request& r) { return r.params.mirostat == 1; }));
    CHECK(some([](const Request& r) { return r.params.mirostat == 2; }));
    CHECK(some([](const Request& r) { return r.params.adaptive_target >= 0.0; }));
    for (const auto rng : {proto::Rng::shvs, proto::Rng::sglang, proto::Rng::vllm})
        CHECK(some([=](const Request& r) { return r.params.rng == rng; }));
    CHECK(some([](const Request& r) { return has_own_order(r); }));
    CHECK(share(plan, [](const Request& r) { return r.params.child > 0; }) == Approx(0.2).margin(0.06));
    CHECK_FALSE(some([](const Request& r) { return proto::param_fault(r.params).has_value(); }));
    CHECK_FALSE(some([](const Request& r) {
        return r.allowed_ids.size() + r.bad_words.size() + r.dry_breakers.size() > kMaxListWords;
    }));
}

TEST_CASE("lean sessions get no request that asks for a hot set, and else the same requests") {
    SimOptions options = small_options();
    const RequestPlan of_rows(options);
    options.transport = Transport::lean;
    const RequestPlan of_lean(options);
    REQUIRE(of_lean.size() == of_rows.size());
    for (std::uint32_t i = 0; i < of_lean.size(); ++i) {
        const bool hot = of_rows[i].params.rng == proto::Rng::shvs;
        CHECK(of_lean[i].params.rng == (hot ? proto::Rng::race : of_rows[i].params.rng));
        CHECK(of_lean[i].params.top_p == of_rows[i].params.top_p);
    }
}

TEST_CASE("most prompts are short, and some reach the maximum") {
    SimOptions options = small_options();
    options.steps = 20000;
    const RequestPlan plan(options);
    std::vector<std::uint32_t> lengths;
    lengths.reserve(plan.size());
    for (std::uint32_t i = 0; i < plan.size(); ++i) lengths.push_back(plan[i].prompt_length);
    std::sort(lengths.begin(), lengths.end());
    CHECK(lengths.front() >= 1);
    CHECK(lengths.back() > options.prompt_max / 2);
    CHECK(lengths.back() <= options.prompt_max);
    CHECK(lengths[lengths.size() / 2] < 100);
}

TEST_CASE("a request ends at EOS, at a stop id, at a loop or at its last token, and not before") {
    Request request;
    request.params.eos_token_id = 7;
    request.params.max_tokens = 3;
    request.stop_ids = {5};
    const auto ends = [&request](const std::vector<std::int32_t>& output) {
        return request.ends_with(output);
    };
    CHECK_FALSE(ends({1}));
    CHECK(ends({7}));
    CHECK(ends({1, 5}));
    CHECK(ends({1, 1, 1}));
    request.params.flags |= proto::kIgnoreEos;
    CHECK_FALSE(ends({7}));
    request.params.loop_max_period = 1;
    request.params.loop_count = 2;
    CHECK(ends({7, 7}));
    request.params.min_tokens = 2;
    CHECK_FALSE(ends({7, 7}));
}

}  // namespace croupier::sim
