#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tests/tools/asker.h"

namespace croupier::tools {

using namespace explain;
namespace {

using Catch::Matchers::Contains;

Json request(const Json& logits, const Json& params) {
    return {{"logits", logits}, {"params", params}, {"support", true}};
}

std::vector<std::int32_t> support_ids(const Json& answer) {
    std::vector<std::int32_t> ids;
    for (const Json& each : answer.at("support")) ids.push_back(each.at(0).get<std::int32_t>());
    return ids;
}

const Json kRow = {1.0, 4.0, 3.0, 2.0, 0.5, 0.0, -1.0, -2.0};

}  // namespace

TEST_CASE("decide: a parameter outside its range is refused by its own name") {
    const std::vector<std::pair<const char*, Json>> outside = {
        {"temperature", -0.5},
        {"top_p", 0},
        {"min_p", 1.5},
        {"repetition_penalty", 0},
        {"frequency_penalty", 2.5},
        {"presence_penalty", -3},
        {"dynatemp_range", -1},
        {"dynatemp_exponent", "inf"},
        {"top_n_sigma", -2},
        {"typical_p", 0},
        {"xtc_probability", 2},
        {"xtc_threshold", -0.25},
        {"dry_multiplier", -1},
        {"dry_base", 0.5},
        {"mirostat_tau", -1},
        {"mirostat_eta", 1.25},
        {"adaptive_target", 1.5},
        {"adaptive_decay", 1},
        {"top_k", -2},
        {"eos_token_id", -2},
        {"penalty_last_n", -2},
        {"dry_penalty_last_n", -2},
        {"dry_allowed_length", 0},
        {"mirostat", 3},
        {"child", 1024},
        {"temperature", "nan"},
    };
    Asker ask;
    for (const auto& [name, value] : outside) {
        const std::string said = ask.error(request(kRow, {{name, value}}).dump());
        CHECK_THAT(said, Contains("bad_parameter: " + std::string(name) + " is "));
        CHECK_THAT(said, Contains("allowed: "));
    }
    CHECK_THAT(ask.error(request(kRow, {{"min_tokens", 3}, {"max_tokens", 2}}).dump()),
               Contains("min_tokens is 3; allowed: at most max_tokens"));
    CHECK_THAT(ask.error(with(request(kRow, {}), "logprobs", 1025).dump()), Contains("logprobs is 1025"));
}

TEST_CASE("decide: each filter keeps the right tokens") {
    const std::vector<std::pair<Json, std::vector<std::int32_t>>> kept = {
        {{{"top_k", 3}}, {1, 2, 3}},
        {{{"top_p", 0.7}}, {1, 2}},
        {{{"min_p", 0.1}}, {1, 2, 3}},
        {{{"top_n_sigma", 1}}, {1, 2}},
        {{{"typical_p", 0.1}}, {2}},
        {{{"xtc_probability", 1}, {"xtc_threshold", 0.2}}, {2, 3, 0, 4, 5, 6, 7}},
        {{{"allowed_token_ids", {7, 0}}}, {0, 7}},
        {{{"bad_words", {1, Json::array({2})}}}, {3, 0, 4, 5, 6, 7}},
        {{{"mirostat", 2}, {"mirostat_tau", 0}}, {1}},
        {{{"order", {"top_k"}}, {"top_k", 2}, {"top_p", 0.1}}, {1, 2}},
        {{{"min_tokens", 1}, {"eos_token_id", 1}, {"stop_token_ids", {2}}, {"top_k", 2}}, {3, 0}},
        {{{"logit_bias", {{"7", 100}}}, {"top_k", 2}}, {7, 1}},
    };
    Asker ask;
    for (const auto& [params, ids] : kept) {
        for (const char* impl : {"fast", "reference"}) {
            INFO(params.dump() << " " << impl);
            CHECK(support_ids(ask(with(request(kRow, params), "impl", impl))) == ids);
        }
    }
}

TEST_CASE("decide: penalties, DRY and multi-token bad words depend on the history") {
    Asker ask;
    const auto greedy = [&](Json params, const Json& prompt, const Json& output) {
        params["temperature"] = 0;
        return ask.token({{"logits", kRow}, {"params", params}, {"prompt", prompt}, {"output", output}});
    };
    const Json none = Json::array();
    CHECK(greedy({}, {1}, {1}) == 1);
    CHECK(greedy({{"repetition_penalty", 2}}, {1}, none) == 2);
    CHECK(greedy({{"frequency_penalty", 0.6}}, {1, 1}, {1}) == 1);
    CHECK(greedy({{"frequency_penalty", 0.6}}, none, {1, 1}) == 2);
    CHECK(greedy({{"presence_penalty", 1.5}}, none, {1}) == 2);
    CHECK(greedy({{"presence_penalty", 1.5}, {"penalty_last_n", 1}}, none, {1, 5}) == 1);
    CHECK(greedy({{"bad_words", {Json::array({5, 1})}}}, none, {5}) == 2);
    CHECK(greedy({{"bad_words", {Json::array({5, 1})}}}, none, {6}) == 1);
    const Json repeat = {4, 5, 1, 6, 4, 5};
    CHECK(greedy({{"dry_multiplier", 5}}, repeat, none) == 2);
    CHECK(greedy({{"dry_multiplier", 5}, {"dry_sequence_breakers", {5}}}, repeat, none) == 1);
    CHECK(greedy({{"dry_multiplier", 5}, {"dry_allowed_length", 3}}, repeat, none) == 1);
    CHECK(greedy({{"dry_multiplier", 5}, {"dry_penalty_last_n", 4}}, repeat, none) == 1);
}

TEST_CASE("decide: a decision that ends the sequence names the reason") {
    Asker ask;
    const auto flags = [&](Json params) {
        params["temperature"] = 0;
        return ask({{"logits", kRow}, {"params", params}}).at("flags");
    };
    CHECK(flags({}) == Json{"greedy"});
    CHECK(flags({{"eos_token_id", 1}}) == Json{"stopped_by_eos", "greedy"});
    CHECK(flags({{"eos_token_id", 1}, {"ignore_eos", true}}) == Json{"greedy"});
    CHECK(flags({{"stop_token_ids", {3, 1}}}) == Json{"stopped_by_token", "greedy"});
    CHECK(flags({{"stop_token_ids", {3, 1}}, {"eos_token_id", 1}, {"stops_only_ban", true}}) ==
          Json{"greedy"});
    CHECK(flags({{"max_tokens", 1}}) == Json{"stopped_by_length", "greedy"});
    CHECK(flags({{"max_tokens", 2}}) == Json{"greedy"});
    const Json loops = {{"temperature", 0}, {"loop_max_period", 1}, {"loop_count", 3}};
    const auto after = [&](const Json& output) {
        return ask({{"logits", kRow}, {"output", output}, {"params", loops}}).at("flags");
    };
    CHECK(after({1, 1}) == Json{"stopped_by_loop", "greedy"});
    CHECK(after({1}) == Json{"greedy"});
}

TEST_CASE("decide: llama.cpp's names of steps are accepted") {
    Asker ask;
    const Json ours = {{"order", {"typical_p"}}, {"typical_p", 0.4}};
    const Json theirs = {{"order", {"typ_p"}}, {"typical_p", 0.4}};
    CHECK(ask(request(kRow, ours)) == ask(request(kRow, theirs)));
}

TEST_CASE("decide: the randoms of another engine choose other tokens of the same distribution") {
    Asker ask;
    const Json ours = with(request(kRow, {{"rng", "race"}, {"temperature", 3}}), "draws", 64);
    for (const char* rng : {"sglang", "vllm"}) {
        const Json other = with(ours, "params", {{"rng", rng}, {"temperature", 3}});
        CHECK(ask(other).at("support") == ask(ours).at("support"));
        CHECK(ask(other).at("tokens") != ask(ours).at("tokens"));
    }
    CHECK(ask(with(ours, "params", {{"temperature", 3}})) == ask(ours));
}

TEST_CASE("decide: log-probs are those of the row or of the distribution of the draw") {
    Asker ask;
    Json raw = {{"logits", {0, 0, 0, 0}}, {"params", {{"top_k", 2}}}, {"logprobs", 1}};
    CHECK(ask(raw).at("logprobs").at(1).at(1).get<double>() == Approx(std::log(0.25)).margin(4e-6));
    raw["params"]["logprobs_mode"] = "processed";
    CHECK(ask(raw).at("logprobs").at(1).at(1).get<double>() == Approx(std::log(0.5)).margin(1e-7));
    CHECK(ask(raw).at("logprobs").size() == 2);
    raw.erase("logprobs");
    CHECK_FALSE(ask(raw).contains("logprobs"));
}

TEST_CASE("decide: log-probs without best tokens contain only the drawn token") {
    Asker ask;
    for (const char* impl : {"fast", "reference"}) {
        for (const char* mode : {"raw", "processed"}) {
            Json request = {{"logits", {0.5, 2, 1, 0, -1}}, {"impl", impl}, {"logprobs", 3}, {"draws", 4}};
            request["params"] = {{"top_k", 3}, {"logprobs_mode", mode}};
            for (const bool masked : {false, true}) {
                if (masked) request["mask"] = {21};
                Json some = ask(request).at("logprobs");
                Json none = ask(with(request, "logprobs", 0)).at("logprobs");
                INFO(impl << ", " << mode << (masked ? ", under a mask" : ""));
                REQUIRE(none.size() == 1);
                CHECK(none == Json::array({some.at(0)}));
                CHECK(ask(with(request, "logprobs", 1)).at("logprobs").size() == 2);
            }
        }
    }
    Json children = ask(Json{{"logits", {1, 2}}, {"logprobs", 0}, {"params", {{"n", 3}}}}).at("children");
    for (const Json& child : children) CHECK(child.at("logprobs").at(0).at(0) == child.at("tokens").at(0));
}

TEST_CASE("decide: mirostat and adaptive-p return feedback for the next decision") {
    Asker ask;
    for (const Json& params :
         {Json{{"mirostat", 1}}, Json{{"mirostat", 2}}, Json{{"adaptive_target", 0.3}}}) {
        const Json first = ask(request(kRow, params));
        CHECK(first.at("feedback").at("weight").get<double>() > 0.0);
        const Json second = ask(with(request(kRow, params), "feedback", first.at("feedback")));
        CHECK(second.at("feedback") != first.at("feedback"));
    }
    CHECK_FALSE(ask(request(kRow, {})).contains("feedback"));
}

}  // namespace croupier::tools
