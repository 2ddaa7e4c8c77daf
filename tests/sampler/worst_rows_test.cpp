// Rows that cost more than others must not cost more than their size asks: a search that went over the row
// for every token would not end within a test's limit here.
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "row_fixture.h"
#include "sampler/reference/decide.h"
#include "testing/agreement.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

constexpr std::uint32_t kVocab = 151936;

// Next to zero, with values of 16,000 upper codes, all of which weigh alike.
std::vector<float> nearly_zeros() {
    std::vector<float> logits(kVocab);
    for (std::uint32_t id = 0; id < kVocab; ++id) {
        const std::uint32_t code = id * 7919U % 0x3F00U;
        logits[id] = std::bit_cast<float>(code << 16U | (id * 40503U & 0xFFFFU)) * 1e-3F;
    }
    return logits;
}

// So many decisions that a test's limit would end them if each went over the row for every class.
void check_by_reference(const std::vector<float>& logits, proto::SamplingParams& params, Request& request,
                        std::uint64_t decisions) {
    const RowFixture row(logits, {proto::Dtype::fp32, 64, 1, 0, {}, false});
    Workspace workspace(kVocab);
    request.params = &params;
    for (params.seed = 0; params.seed < decisions; ++params.seed) {
        const proto::Decision decision = decide_once(row.view(), request, workspace);
        REQUIRE(workspace.answer().path == DecisionPath::classes);
        if (params.seed >= 4) continue;
        const std::string fault = difference(outcome_of(decision, workspace.answer()),
                                             reference::decide(row.view(), request), Logprobs::within_error);
        CHECK(fault.empty());
    }
}

}  // namespace

TEST_CASE("of a real vocabulary's equal logits few are kept: the race asks for them without a pass a token") {
    const RowFixture row(std::vector<float>(kVocab, 1.0F), {proto::Dtype::bf16, 64, 1, 0, {}, false});
    Workspace workspace(kVocab);
    proto::SamplingParams params;
    std::int32_t last = 0;  // of the tokens that are kept
    DecisionPath path = DecisionPath::classes;
    SECTION("mirostat v2 keeps one, all being more surprising than it allows") {
        params.mirostat = 2;
    }
    SECTION("mirostat v1") {
        params.mirostat = 1;
        last = 999;
        path = DecisionPath::mirostat;
    }
    SECTION("two filters, the first of which keeps a thousandth") {
        params.top_p = 0.001;
        params.typical_p = 0.9;
        last = 151;
    }
    Request request;
    request.params = &params;
    request.max_length = 10;
    for (params.seed = 0; params.seed < 40; ++params.seed) {
        const proto::Decision decision = decide_once(row.view(), request, workspace);
        REQUIRE(decision.error == proto::DecisionError::none);
        CHECK(workspace.answer().path == path);
        CHECK(decision.token <= last);
    }
}

TEST_CASE("of an fp32 row next to zero no filter splits thousands of classes one by one") {
    std::vector<float> logits = nearly_zeros();
    proto::SamplingParams params;
    std::uint64_t decisions = 40;
    SECTION("typical-p, the cut of which each class may hold") {
        logits[0] = 1.0F;
        params.typical_p = GENERATE(0.5, 0.9);
    }
    SECTION("top-n sigma with its threshold about zero") {
        constexpr float kBest = 1e10F;
        for (std::uint32_t id = 0; id < kVocab; id += 100) logits[id] = kBest;
        params.top_n_sigma = 1.0 / std::sqrt(0.01 * 0.99);
        decisions = 300;
    }
    Request request;
    request.max_length = 10;
    check_by_reference(logits, params, request, decisions);
}

TEST_CASE("adaptive-p ranks a token among thousands that a penalty moved as the reference does") {
    std::vector<std::int32_t> prompt(20'000);
    std::iota(prompt.begin(), prompt.end(), 0);
    proto::SamplingParams params;
    params.adaptive_target = 0.0;
    params.typical_p = 0.99;
    params.repetition_penalty = 1.1;
    params.order = {proto::Step::typical_p, proto::Step::penalties};
    params.logprob_mode = proto::LogprobMode::processed;
    params.logprobs = 20;
    Request request;
    request.prompt = prompt;
    request.max_length = 200'000;
    check_by_reference(nearly_zeros(), params, request, 4);
}

}  // namespace croupier::sampler::test
