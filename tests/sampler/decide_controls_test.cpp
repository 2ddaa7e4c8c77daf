#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "row_fixture.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

// Decides with many seeds: each survivor of a handful of similar mass is drawn, and nothing else.
std::set<std::int32_t> drawn_tokens(const std::vector<float>& logits, proto::SamplingParams params,
                                    bool permuted = false) {
    const RowFixture row(logits, {proto::Dtype::fp32, 64, 1, 0, {}, permuted}, 3);
    Workspace workspace(static_cast<std::uint32_t>(logits.size()));
    std::set<std::int32_t> tokens;
    for (params.seed = 0; params.seed < 256; ++params.seed) {
        Request request;
        request.params = &params;
        request.max_length = 10;
        tokens.insert(decide_once(row.view(), request, workspace).token);
    }
    return tokens;
}

proto::Decision decide_first(const proto::SamplingParams& params, Request request) {
    std::vector<float> logits(8);
    logits[4] = 30.0F;
    const RowFixture row(logits, {});
    Workspace workspace(8);
    request.params = &params;
    return decide_once(row.view(), request, workspace);
}

proto::SamplingParams greedy() {
    proto::SamplingParams params;
    params.temperature = 0.0;
    return params;
}

}  // namespace

TEST_CASE("ties at the boundary of top-k are broken by the lower id, in any vocabulary order") {
    const bool permuted = GENERATE(false, true);
    proto::SamplingParams params;
    params.top_k = 3;
    CHECK(drawn_tokens({0, 2, 2, 3, 2, 2, 0}, params, permuted) == std::set<std::int32_t>{1, 2, 3});
}

TEST_CASE("top-k of one takes the lowest id of a flat row longer than its scratch") {
    const bool permuted = GENERATE(false, true);
    proto::SamplingParams params;
    params.top_k = 1;
    CHECK(drawn_tokens(std::vector<float>(3000, 1.5F), params, permuted) == std::set<std::int32_t>{0});
}

TEST_CASE("top-p keeps a token iff the mass before it is less than p") {
    proto::SamplingParams params;
    const std::vector<float> four_equal = {1, 1, 1, 1};
    params.top_p = 0.5;
    CHECK(drawn_tokens(four_equal, params) == std::set<std::int32_t>{0, 1});
    params.top_p = 0.500001;
    CHECK(drawn_tokens(four_equal, params) == std::set<std::int32_t>{0, 1, 2});
    params.top_p = 1e-300;
    CHECK(drawn_tokens(four_equal, params) == std::set<std::int32_t>{0});
}

TEST_CASE("top-p is relative to what top-k and min-p left") {
    proto::SamplingParams params;
    params.top_k = 2;
    params.top_p = 0.5;
    CHECK(drawn_tokens({1, 1, 1, 1}, params) == std::set<std::int32_t>{0});
    params.top_k = 0;
    params.min_p = 0.9;
    CHECK(drawn_tokens({1, 1, 0, 0}, params) == std::set<std::int32_t>{0});
}

TEST_CASE("min-p of one keeps all maxima and nothing else") {
    proto::SamplingParams params;
    params.min_p = 1.0;
    CHECK(drawn_tokens({1, 2, 1.999999F, 2}, params) == std::set<std::int32_t>{1, 3});
}

TEST_CASE("the greedy token among equals is the lowest id, in any vocabulary order") {
    const bool permuted = GENERATE(false, true);
    CHECK(drawn_tokens({1, 5, 5, 5, 0}, greedy(), permuted) == std::set<std::int32_t>{1});
}

TEST_CASE("minus zero and zero are equal logits") {
    CHECK(drawn_tokens({-0.0F, 0.0F, -1}, greedy()) == std::set<std::int32_t>{0});
    CHECK(drawn_tokens({0.0F, -0.0F, -1}, greedy()) == std::set<std::int32_t>{0});
}

TEST_CASE("a decision says which rule stopped the sequence, the first that applies") {
    proto::SamplingParams params = greedy();
    Request request;
    request.max_length = 100;
    const std::vector<std::int32_t> stops = {4};
    CHECK(decide_first(params, request).flags == proto::kGreedy);
    params.max_tokens = 1;
    CHECK(decide_first(params, request).flags == (proto::kGreedy | proto::kStoppedByLength));
    request.stop_ids = stops;
    CHECK(decide_first(params, request).flags == (proto::kGreedy | proto::kStoppedByToken));
    params.eos_token_id = 4;
    CHECK(decide_first(params, request).flags == (proto::kGreedy | proto::kStoppedByEos));
    params.flags = proto::kIgnoreEos;
    CHECK(decide_first(params, request).flags == (proto::kGreedy | proto::kStoppedByToken));
}

TEST_CASE("with stops_only_ban EOS and stop ids are banned until min_tokens are out, and end nothing") {
    proto::SamplingParams params = greedy();
    params.flags = proto::kStopsOnlyBan;
    params.eos_token_id = 4;
    params.min_tokens = 2;
    const std::vector<std::int32_t> stops = {0};
    Request request;
    request.max_length = 100;
    request.stop_ids = stops;
    const std::vector<std::int32_t> output = {1, 1};
    request.output = std::span(output).first(1);
    const auto banned = decide_first(params, request);
    CHECK(banned.token != 4);
    CHECK(banned.token != 0);
    request.output = output;
    CHECK(decide_first(params, request).token == 4);
    CHECK(decide_first(params, request).flags == proto::kGreedy);
}

TEST_CASE("the session's longest sequence stops like max_tokens") {
    const std::vector<std::int32_t> prompt = {1, 2};
    Request request;
    request.prompt = prompt;
    request.max_length = 3;
    CHECK((decide_first(greedy(), request).flags & proto::kStoppedMask) == proto::kStoppedByLength);
    request.max_length = 4;
    CHECK((decide_first(greedy(), request).flags & proto::kStoppedMask) == 0);
}

TEST_CASE("EOS is banned until min_tokens are out, also when it would be ignored") {
    const auto flags = GENERATE(0U, proto::kIgnoreEos);
    proto::SamplingParams params = greedy();
    params.eos_token_id = 4;
    params.min_tokens = 1;
    params.flags = flags;
    Request request;
    request.max_length = 100;
    CHECK(decide_first(params, request).token == 0);
    const std::vector<std::int32_t> output = {1};
    request.output = output;
    CHECK(decide_first(params, request).token == 4);
}

}  // namespace croupier::sampler::test
