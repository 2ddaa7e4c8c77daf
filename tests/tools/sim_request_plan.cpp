#include <algorithm>
#include <catch2/catch.hpp>

#include "tools/sim/request_plan.h"

namespace croupier::tools::sim {
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

}  // namespace

TEST_CASE("a request does not depend on how much work or which engine surrounds it") {
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

TEST_CASE("the plan holds the work that was asked for and not a request more") {
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
               r.params.min_p == 0.0;
    };
    const auto nucleus_only = [](const Request& r) { return r.params.top_k == 0 && r.params.top_p < 1.0; };
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

TEST_CASE("prompts reach the longest that was asked for, and most are short") {
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

TEST_CASE("a request ends at its EOS, at a stop id and at its last token, and not before") {
    Request request;
    request.params.eos_token_id = 7;
    request.params.max_tokens = 3;
    request.stop_ids = {5};
    CHECK_FALSE(request.ends_with(0, 1));
    CHECK(request.ends_with(0, 7));
    CHECK(request.ends_with(1, 5));
    CHECK(request.ends_with(2, 1));
    request.params.flags |= proto::kIgnoreEos;
    CHECK_FALSE(request.ends_with(0, 7));
}

}  // namespace croupier::tools::sim
