// What a writer says of its tiles is believed. If it is untrue the token may be a wrong one, but it is one of
// the row's, and no sampler reads or writes beyond its memory for it (tests/fuzz/fuzz_schedule.cpp looks at
// that).
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "row_fixture.h"
#include "sampler/formulas.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

constexpr std::uint32_t kVocab = 200;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> any_row(std::mt19937_64& generator) {
    std::normal_distribution<float> normal(0.0F, 2.0F);
    std::vector<float> logits(kVocab);
    for (float& each : logits) each = normal(generator);
    // A NaN that the maxima hide, and rows of few tokens that are nearly alike.
    if (generator() % 8 == 0) logits[generator() % 64] = std::nanf("");
    if (generator() % 4 == 0) {
        for (std::size_t id = 0; id < logits.size(); ++id)
            logits[id] = id % 16 != 0 ? -kInfinity : 1.0F + static_cast<float>(generator() % 4) * 0x1p-23F;
    }
    return logits;
}

// Of all blocks alike, or of each by itself.
std::vector<float> lies_about(const std::vector<float>& logits, std::mt19937_64& generator) {
    std::vector<float> maxima;
    const bool alike = generator() % 2 == 0;
    std::uint64_t lie = generator();
    for (std::size_t first = 0; first < logits.size(); first += 64) {
        const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(first);
        const float most =
            *std::max_element(begin, begin + std::min<std::ptrdiff_t>(64, logits.end() - begin));
        if (!alike) lie = generator();
        maxima.push_back(std::array{most, std::nextafter(most, kInfinity), std::nextafter(most, -kInfinity),
                                    most + 3.0F, most - 3.0F, 3e38F, -kInfinity}[lie % 7]);
    }
    return maxima;
}

proto::SamplingParams any_params(std::mt19937_64& generator) {
    proto::SamplingParams params;
    const auto one_of = [&](std::array<double, 4> values) { return values[generator() % 4]; };
    params.seed = generator();
    params.temperature = one_of({0.0, 0.7, 1.0, 1.0});
    params.top_n_sigma = one_of({-1.0, 1e-308, 0.01, 1.0});
    params.typical_p = one_of({1.0, 1.0, 1e-320, 0.5});
    params.top_p = one_of({1.0, 1.0, 1e-320, 0.9});
    params.min_p = one_of({0.0, 0.0, 0.1, 1.0});
    params.xtc_probability = one_of({0.0, 0.0, 1.0, 1.0});
    params.dynatemp_range = one_of({0.0, 0.0, 0.5, 0.5});
    params.repetition_penalty = one_of({1.0, 1.0, 1.3, 1.3});
    params.top_k = std::array{0, 0, 1, 10}[generator() % 4];
    params.mirostat = std::array<std::uint8_t, 4>{0, 0, 1, 2}[generator() % 4];
    params.support = std::array{0U, 0U, 1U, kVocab}[generator() % 4];
    params.rng =
        std::array{proto::Rng::race, proto::Rng::race, proto::Rng::sglang, proto::Rng::vllm}[generator() % 4];
    using proto::Step;
    if (generator() % 4 == 0)
        params.order = {Step::typical_p, Step::penalties, Step::min_p, Step::temperature};
    if (generator() % 4 == 0) params.order = {Step::xtc, Step::penalties, Step::typical_p, Step::top_n_sigma};
    return params;
}

// Decides a row of which something else is said.
proto::Decision decide_believing(const std::vector<float>& logits, std::span<const float> maxima,
                                 const Request& request, Workspace& workspace) {
    const RowFixture row(logits, {});
    RowView view = row.view();
    Slice slice = view.slices.front();
    slice.summaries = {maxima.data(), static_cast<std::uint32_t>(maxima.size())};
    view.slices = {&slice, 1};
    return decide_once(view, request, workspace);
}

}  // namespace

// The largest token sets the threshold, but its block is said to hold nothing above zero.
TEST_CASE("a token that its block's maximum denies leaves a top-n-sigma no list without tokens") {
    std::vector<float> logits(kVocab, 0.0F);
    logits[1] = 2.0F;
    const std::array<float, 4> maxima = {};
    const std::array<proto::TokenBias, 1> bias = {{{5, 1.0F}}};
    proto::SamplingParams params;
    params.top_n_sigma = 1e-300;
    params.typical_p = 0.5;
    Request request;
    request.params = &params;
    request.bias = bias;
    request.max_length = 10;
    Workspace workspace(kVocab);
    const proto::Decision decision = decide_believing(logits, maxima, request, workspace);
    CHECK(decision.error == proto::DecisionError::no_token_left);
    CHECK(workspace.answer_space.left_open == DecisionPath::head);
    CHECK(workspace.answer_space.path == DecisionPath::classes);
}

// A floor that was no number would be below no value: the search of the best would never end.
TEST_CASE("a NaN or +inf that its block's maximum denies is found where a mask has the block read") {
    constexpr std::uint32_t kBlocks = 70;
    const std::vector<float> maxima(kBlocks);
    std::vector<std::uint32_t> mask;
    for (std::uint32_t block = 0; block < kBlocks; ++block) mask.insert(mask.end(), {0b1110, 0});
    proto::SamplingParams params;
    params.temperature = GENERATE(0.0, 1.0);
    params.logprobs = 1;
    Request request;
    request.params = &params;
    request.mask = mask;
    request.max_length = 10;
    Workspace workspace(kBlocks * kBlock);
    const auto error_with = [&](float hidden) {
        std::vector<float> logits(workspace.vocab);
        for (std::size_t id = 1; id < logits.size(); id += kBlock) logits[id] = hidden;
        return decide_believing(logits, maxima, request, workspace).error;
    };
    CHECK(error_with(std::nanf("")) == proto::DecisionError::nan_logit);
    CHECK(error_with(kInfinity) == proto::DecisionError::infinite_logit);
}

// No block is read for the sum of what the tokens weigh, which is 0 then.
TEST_CASE("adaptive-p lists the best of a row whose maxima deny all that it holds") {
    std::vector<float> logits(kVocab);
    for (std::size_t id = 0; id < logits.size(); ++id) logits[id] = static_cast<float>(id % 7);
    const std::array<float, 4> maxima = {-100.0F, -100.0F, -100.0F, -100.0F};
    proto::SamplingParams params;
    params.adaptive_target = 0.3;
    params.logprob_mode = proto::LogprobMode::processed;
    params.logprobs = 5;
    params.support = 20;
    Request request;
    request.params = &params;
    request.wants_support = true;
    request.max_length = 10;
    Workspace workspace(kVocab);
    const proto::Decision decision = decide_believing(logits, maxima, request, workspace);
    CHECK(decision.error == proto::DecisionError::none);
    CHECK(workspace.answer_space.path == DecisionPath::classes);
}

TEST_CASE("a token that weighs nothing leaves mirostat and adaptive-p where they were") {
    proto::SamplingParams params;
    params.mirostat_tau = 5.0;
    params.mirostat_eta = 0.1;
    CHECK(mirostat_feedback(params, 10.0, 6.0).level == Approx(9.9));
    CHECK(mirostat_feedback(params, 10.0, std::numeric_limits<double>::infinity()).level == 10.0);
    CHECK(mirostat_feedback(params, 10.0, std::nan("")).level == 10.0);
    params.adaptive_target = 0.5;
    params.adaptive_decay = 0.9;
    CHECK(adaptive_feedback(params, {4.0, 8.0}, 0.25).level == Approx(3.85));
    CHECK(adaptive_feedback(params, {4.0, 8.0}, std::nan("")).level == 4.0);
}

TEST_CASE("maxima of tiles that are untrue cost no more than a token of the row") {
    std::mt19937_64 generator(20261130);
    Workspace workspace(kVocab);
    const std::array<std::int32_t, 3> prompt = {1, 2, 3};
    const std::array<proto::TokenBias, 2> bias = {{{5, 1.0F}, {60, -2.0F}}};
    for (int number = 0; number < 20'000; ++number) {
        const std::vector<float> logits = any_row(generator);
        const std::vector<float> maxima = lies_about(logits, generator);
        const proto::SamplingParams params = any_params(generator);
        Request request;
        request.params = &params;
        request.prompt = prompt;
        if (generator() % 2 == 0) request.bias = bias;
        request.max_length = 10;
        request.wants_support = params.support > 0;
        INFO("case " << number);
        const proto::Decision decision = decide_believing(logits, maxima, request, workspace);
        const bool is_of_row = decision.token >= 0 && decision.token < static_cast<std::int32_t>(kVocab);
        REQUIRE((decision.error == proto::DecisionError::none) == is_of_row);
    }
}

}  // namespace croupier::sampler::test
