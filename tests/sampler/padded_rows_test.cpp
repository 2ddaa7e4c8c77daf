// Rows with entries that an engine made unlikely by a number instead of -inf: the lowest float, -1e30, -1e9.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "row_fixture.h"
#include "sampler/decide.h"
#include "sampler/reference/decide.h"

using namespace croupier;
using namespace croupier::sampler;
using namespace croupier::sampler::test;

namespace {

constexpr std::uint32_t kVocab = 2000;
constexpr std::uint32_t kDraws = 60;
// bf16's own lowest: the next lower float is -inf there.
constexpr float kLowest = -3.3895314e38F;

struct Control {
    const char* name;
    std::function<void(proto::SamplingParams&)> set;
};

const std::vector<Control>& controls() {
    static const std::vector<Control> all = {
        {"top_n_sigma", [](auto& p) { p.top_n_sigma = 1.0; }},
        {"typical_p", [](auto& p) { p.typical_p = 0.5; }},
        {"dynamic temperature", [](auto& p) { p.dynatemp_range = 0.5; }},
        {"XTC", [](auto& p) { p.xtc_probability = 1.0; }},
        {"top_p", [](auto& p) { p.top_p = 0.9; }},
        {"mirostat 2", [](auto& p) { p.mirostat = 2; }},
        {"adaptive-p", [](auto& p) { p.adaptive_target = 0.3; }},
        {"sigma with penalties",
         [](auto& p) {
             p.top_n_sigma = 1.0;
             p.repetition_penalty = 1.3;
         }},
        {"typical_p with penalties",
         [](auto& p) {
             p.typical_p = 0.5;
             p.repetition_penalty = 1.3;
         }},
    };
    return all;
}

std::vector<float> padded(float pad, std::uint32_t pads, proto::Dtype dtype, std::mt19937_64& generator) {
    std::normal_distribution<float> bell(5.0F, 3.0F);
    std::vector<float> logits(kVocab);
    for (float& logit : logits) logit = bell(generator);
    std::fill_n(logits.begin() + 40, pads, pad);
    for (float& logit : logits) logit = quantised(logit, dtype);
    return logits;
}

void check_control(const Control& control, float pad, std::uint32_t pads, proto::Dtype dtype) {
    std::mt19937_64 generator(20261122);
    const RowFixture row(padded(pad, pads, dtype, generator), {dtype, 64, 1, 0, {kVocab}, false, false}, 3);
    Workspace workspace(kVocab);
    SequenceState state(kVocab, 100);
    proto::SamplingParams params;
    params.flags = proto::kNoLogprob;
    control.set(params);
    state.begin(params, {});
    // Penalised, and one of them padding.
    const std::vector<std::int32_t> prompt = {40, 1, 2, 3, 500};
    Request request;
    request.params = &params;
    request.prompt = prompt;
    request.max_length = 100;
    state.follow(request.prompt, request.output);
    for (std::uint32_t i = 0; i < kDraws; ++i) {
        params.seed = i;
        const proto::Decision expected = reference::decide(row.view(), request).decision;
        const proto::Decision decision = decide(row.view(), request, state, workspace);
        INFO(control.name << ", " << pads << " entries of " << pad << ", seed " << i);
        REQUIRE(decision.error == expected.error);
        REQUIRE(decision.token == expected.token);
    }
}

}  // namespace

TEST_CASE("rows padded with very low numbers are decided as the reference decides them") {
    const float pad = GENERATE(kLowest, -1e30F, -1e18F, -1e9F, -1e4F);
    const std::uint32_t pads = GENERATE(1U, 40U, 300U);
    const auto dtype = GENERATE(proto::Dtype::bf16, proto::Dtype::fp32);
    for (const Control& control : controls()) check_control(control, pad, pads, dtype);
}

TEST_CASE("adaptive-p is the reference's where logits are too large to be weighed in float") {
    std::mt19937_64 generator(7);
    std::normal_distribution<float> bell(3e5F, 10.0F);
    for (std::uint32_t round = 0; round < 400; ++round) {
        std::vector<float> logits(65);
        for (float& logit : logits) logit = bell(generator);
        const RowFixture row(logits, {proto::Dtype::fp32, 64, 1, 0, {65}, false, false}, 3);
        Workspace workspace(65);
        SequenceState state(65, 100);
        proto::SamplingParams params;
        params.flags = proto::kNoLogprob;
        params.temperature = round % 2 == 0 ? 0.01 : 1e-5;
        params.adaptive_target = 0.3;
        params.seed = round;
        state.begin(params, {});
        Request request;
        request.params = &params;
        request.max_length = 100;
        REQUIRE(decide(row.view(), request, state, workspace).token ==
                reference::decide(row.view(), request).decision.token);
    }
}

TEST_CASE("a large top-k is counted, and one of the vocabulary's size or more is as good as none") {
    std::mt19937_64 generator(9);
    const RowFixture row(padded(-1e9F, 1, proto::Dtype::bf16, generator),
                         {proto::Dtype::bf16, 64, 1, 0, {kVocab}, false, false}, 3);
    Workspace workspace(kVocab);
    SequenceState state(kVocab, 100);
    proto::SamplingParams params;
    params.flags = proto::kNoLogprob;
    params.rng = GENERATE(proto::Rng::race, proto::Rng::vllm, proto::Rng::shvs);
    params.top_k = static_cast<std::int32_t>(kVocab - 1 + GENERATE(0U, 1U, 7U));
    params.top_p = GENERATE(1.0, 0.9);
    const DecisionPath without = params.top_p < 1.0 ? DecisionPath::asked : DecisionPath::race;
    const DecisionPath path =
        params.top_k < static_cast<std::int32_t>(kVocab) ? DecisionPath::classes : without;
    state.begin(params, {});
    Request request;
    request.params = &params;
    request.max_length = 100;
    for (params.seed = 0; params.seed < kDraws; ++params.seed) {
        CHECK(decide(row.view(), request, state, workspace).token ==
              reference::decide(row.view(), request).decision.token);
        CHECK(workspace.answer().path == path);
    }
}
