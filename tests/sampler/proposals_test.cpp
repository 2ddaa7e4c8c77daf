#include "sampler/proposals.h"

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "chi_square.h"
#include "proto/philox.h"
#include "row_fixture.h"
#include "sampler/reference/decide.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

constexpr std::uint32_t kVocab = 20000;
constexpr std::uint32_t kDraws = 60000;

// More blocks than a head holds, in clumps: some tokens lie in the head, many blocks just below it.
std::vector<float> clumped_logits() {
    std::mt19937_64 generator(11);
    std::normal_distribution<float> spread(0.0F, 2.0F);
    std::vector<float> logits(kVocab);
    for (std::size_t i = 0; i < logits.size(); ++i) {
        const std::size_t block = i / kProposalBlock;
        const float level = 3.0F * std::sin(static_cast<float>(block) * 0.37F);
        logits[i] = quantised(level + spread(generator), proto::Dtype::bf16);
    }
    return logits;
}

// Draws from the request and compares with the reference's support, tokens of little probability taken
// together.
void check_distribution(Request request, const RowShape& shape, const char* path) {
    const std::vector<float> logits = clumped_logits();
    const RowFixture row(logits, shape, 17);
    Workspace workspace(kVocab);
    SequenceState state(kVocab, 100);
    state.begin(*request.params, {});
    std::vector<double> observed(kVocab, 0.0);
    for (std::uint32_t i = 0; i < kDraws; ++i) {
        request.position_shift = i;
        request.random = proto::random_at(request.params->seed, random_position(request), 0, 0);
        const proto::Decision decision = decide(row.view(), request, state, workspace);
        REQUIRE(decision.error == proto::DecisionError::none);
        observed[static_cast<std::size_t>(decision.token)] += 1.0;
    }
    CHECK(std::string(name_of(workspace.answer().path)) == path);

    request.wants_support = true;
    double statistic = 0.0;
    double groups = 0.0;
    double expected = 0.0;
    double seen = 0.0;
    double all_seen = 0.0;
    for (const Survivor& survivor : reference::decide(row.view(), request).support) {
        expected += kDraws * survivor.probability;
        seen += observed[static_cast<std::size_t>(survivor.token)];
        all_seen += observed[static_cast<std::size_t>(survivor.token)];
        if (expected < 20.0) continue;
        statistic += std::pow(seen - expected, 2.0) / expected;
        groups += 1.0;
        expected = seen = 0.0;
    }
    CHECK(all_seen == kDraws);
    REQUIRE(groups > 50.0);
    CHECK(statistic < chi_square_limit(groups - 1.0));
}

}  // namespace

TEST_CASE("proposals are drawn by the softmax, whatever is added, taken off and forbidden") {
    proto::SamplingParams params;
    params.rng = proto::Rng::shvs;
    params.flags = proto::kNoLogprob;
    params.seed = 1;
    params.temperature = GENERATE(0.7, 1.5);
    Request request;
    request.params = &params;
    request.max_length = 100;
    RowShape shape = {proto::Dtype::bf16, 64, 2, 1, {7001, 13300}, true, true};
    std::vector<std::int32_t> prompt(60);
    for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<std::int32_t>(i * 331);
    std::vector<proto::TokenBias> bias = {{5, 6.0F}, {777, 3.0F}, {12345, -2.0F}, {19999, 7.5F}};
    std::vector<std::uint32_t> mask((kVocab + 31) / 32, 0x5F5F5F5FU);
    const std::vector<std::uint32_t> hot_blocks = {40, 3, 109, 312, 17};
    std::vector<std::uint32_t> all_blocks((kVocab + kBlock - 1) / kBlock);
    std::iota(all_blocks.rbegin(), all_blocks.rend(), 0U);

    SECTION("as they are") {}
    SECTION("with penalties that lower") {
        params.repetition_penalty = 1.5;
        request.prompt = prompt;
    }
    SECTION("with penalties that raise") {
        params.repetition_penalty = 0.5;
        request.prompt = prompt;
    }
    SECTION("with biases") {
        request.bias = bias;
    }
    SECTION("under a mask, with biases") {
        request.bias = bias;
        request.mask = mask;
    }
    SECTION("with a hot set, under a mask, with biases and penalties") {
        params.repetition_penalty = 1.5;
        request.prompt = prompt;
        request.bias = bias;
        request.mask = mask;
        request.hot_blocks = hot_blocks;
    }
    SECTION("with all in the hot set") {
        request.hot_blocks = all_blocks;
    }
    SECTION("in slices' own tiles, without summaries") {
        shape = {proto::Dtype::fp16, 1, 3, 2, {}, false, false};
    }
    check_distribution(request, shape, "proposals");
}

TEST_CASE("what all proposals miss is drawn by the race") {
    proto::SamplingParams params;
    params.rng = proto::Rng::shvs;
    params.flags = proto::kNoLogprob;
    params.seed = 3;
    params.temperature = 0.1;
    // 4,000 tokens are allowed, all of them hundreds of units of temperature below the best.
    std::vector<float> logits(kVocab, 50.0F);
    std::vector<std::uint32_t> mask(kVocab / 32, 0U);
    for (std::uint32_t i = 0; i < 4000; ++i) {
        const std::uint32_t token = i * 5;
        logits[token] = i % 2 == 0 ? -10.0F : -10.5F;
        mask[token / 32] |= 1U << (token % 32);
    }
    const RowFixture row(logits, {proto::Dtype::bf16, 64, 1, 0, {}, false, false});
    Workspace workspace(kVocab);
    Request request;
    request.params = &params;
    request.max_length = 10;
    request.mask = mask;
    int higher = 0;
    constexpr int kRepeats = 300;
    for (std::uint32_t i = 0; i < kRepeats; ++i) {
        request.position_shift = i;
        request.random = proto::random_at(params.seed, i, 0, 0);
        const proto::Decision decision = decide_once(row.view(), request, workspace);
        REQUIRE(decision.error == proto::DecisionError::none);
        CHECK(decision.token == reference::decide(row.view(), request).decision.token);
        REQUIRE(decision.token % 5 == 0);
        if (decision.token % 10 == 0) ++higher;
    }
    CHECK(std::string(name_of(workspace.answer().path)) == "race");
    CHECK(std::string(name_of(workspace.answer().left_open)) == "proposals");
    // Odds of e^5 to 1: two in three hundred are expected below.
    CHECK(higher > kRepeats - 15);
    CHECK(higher < kRepeats);
}

TEST_CASE("a raised token that is written to while it is drawn costs a proposal, and nothing else") {
    proto::SamplingParams params;
    params.rng = proto::Rng::shvs;
    params.flags = proto::kNoLogprob;
    const std::array<proto::TokenBias, 1> bias = {{{5, 40.0F}}};
    std::vector<float> logits = clumped_logits();
    const RowFixture fixture(logits, {});
    RowView row = fixture.view();
    logits.resize(std::size_t{row.vocab} + kProposalBlock);
    Slice slice = row.slices.front();
    slice.elements = std::as_bytes(std::span(logits)).data();
    row.slices = {&slice, 1};
    Workspace workspace(kVocab);
    Request request;
    request.params = &params;
    request.max_length = 10;
    request.bias = bias;
    std::uint32_t decided = 0;
    std::uint32_t wrong = 0;
    const auto proposes_again = [&] {
        request.position_shift = decided++;
        request.random = proto::random_at(params.seed, random_position(request), 0, 0);
        const proto::Decision decision = decide_once(row, request, workspace);
        if (decision.token < 0 || decision.token >= static_cast<std::int32_t>(kVocab)) ++wrong;
        return workspace.answer_space.proposals > 1;
    };
    // Either value alone has nearly all of the mass.
    constexpr std::array kValues = {20.0F, 60.0F};
    for (const float value : kValues) {
        logits[5] = value;
        for (int i = 0; i < 1000; ++i) REQUIRE_FALSE(proposes_again());
    }
    std::atomic<bool> is_done = false;
    std::thread writer([&] {
        std::atomic_ref<float> raised(logits[5]);
        while (!is_done)
            for (const float value : kValues) raised = value;
    });
    // It depends on the machine how often the writer comes between.
    std::uint32_t met = 0;
    while (met < 100 && decided < 5'000'000) met += proposes_again() ? 1U : 0U;
    is_done = true;
    writer.join();
    CHECK(wrong == 0);
    CHECK(met == 100);
}

TEST_CASE("a bound is never below the mass, and at most 6.2 % above it") {
    std::mt19937_64 generator(7);
    std::uniform_real_distribution<double> exponents(-35.0, 0.0);
    for (int i = 0; i < 200000; ++i) {
        const double scale = std::exp(std::uniform_real_distribution<double>(-3.0, 4.0)(generator));
        const double maximum = std::uniform_real_distribution<double>(-50.0, 100.0)(generator);
        const Weigher weigher = {maximum, scale};
        const auto value = static_cast<float>(maximum + exponents(generator) / scale);
        if (static_cast<double>(value) > maximum) continue;
        const Mass mass = weigher.mass(static_cast<double>(value));
        const Mass bound = MassBound(weigher).of(value);
        REQUIRE(bound >= mass);
        REQUIRE(static_cast<double>(bound) <= static_cast<double>(mass) * 1.0635 + 2.0);
    }
}

TEST_CASE("a verdict accepts with the ratio of the masses") {
    CHECK(accepts(0, 100, 1));
    CHECK_FALSE(accepts(0, 100, 0));
    CHECK(accepts(~std::uint64_t{0}, 100, 100));
    CHECK_FALSE(accepts(~std::uint64_t{0}, 100, 99));
    constexpr std::uint64_t kHalf = std::uint64_t{1} << 63U;
    CHECK(accepts(kHalf - 1, 100, 50));
    CHECK_FALSE(accepts(kHalf, 100, 50));
}

}  // namespace croupier::sampler::test
