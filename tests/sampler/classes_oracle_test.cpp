// What is decided by the classes of a row: chains of filters, adaptive-p and mirostat, a dynamic temperature,
// and what is answered of all tokens that are left.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "lm_cases.h"
#include "more_cases.h"
#include "sampler/reference/decide.h"
#include "testing/agreement.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

using proto::Step;
using Generator = std::mt19937_64;

template <class T>
T one_of(std::initializer_list<T> values, Generator& generator) {
    return *(values.begin() + generator() % values.size());
}

bool one_in(std::uint64_t odds, Generator& generator) {
    return generator() % odds == 0;
}

// A model's row, or one whose values are close together, tied, tiny, far apart or all below zero.
void fill_row(LmCase& of, std::uint32_t vocab, Generator& generator) {
    const auto dtype = one_of({proto::Dtype::bf16, proto::Dtype::fp16, proto::Dtype::fp32}, generator);
    fill_lm_row(of, vocab, dtype, generator);
    const auto kind = generator() % 8;
    for (float& logit : of.logits) {
        if (logit == -std::numeric_limits<float>::infinity()) continue;
        if (kind == 0) logit = std::round(logit);
        if (kind == 1) logit = logit * 1e-3F + 5.0F;
        if (kind == 2) logit *= 1e-6F;
        if (kind == 3) logit *= 12.0F;
        if (kind == 4) logit -= 30.0F;
        logit = quantised(logit, dtype);
    }
    const auto ranks = 1 + static_cast<std::uint32_t>(generator() % 3);
    of.shape = lm_shape(vocab, ranks, one_in(4, generator) ? 1 : kBlock, dtype, generator);
    of.order_seed = generator();
}

void add_filters(proto::SamplingParams& params, std::uint32_t vocab, Generator& generator) {
    const auto sometimes = [&] { return one_in(4, generator); };
    if (sometimes()) params.top_k = static_cast<std::int32_t>(1 + generator() % (vocab - 1));
    if (sometimes()) params.top_p = one_of({0.3, 0.9, 0.999, 0.999999}, generator);
    if (sometimes()) params.min_p = one_of({1e-9, 1e-4, 0.05}, generator);
    if (sometimes()) params.typical_p = one_of({1e-9, 0.3, 0.9, 0.9999}, generator);
    if (sometimes()) params.top_n_sigma = one_of({0.5, 1.0, 2.0, 12.0}, generator);
    if (sometimes()) params.xtc_probability = one_of({0.5, 1.0}, generator);
    params.xtc_threshold = one_of({1e-9, 1e-5, 0.001, 0.1}, generator);
    if (one_in(3, generator)) params.dynatemp_range = one_of({0.01, 0.5, 100.0}, generator);
    params.dynatemp_exponent = one_of({0.01, 1.0, 100.0}, generator);
}

void add_draw(proto::SamplingParams& params, Generator& generator) {
    const auto kind = generator() % 4;
    if (kind == 0) params.adaptive_target = one_of({0.0, 1e-6, 0.01, 0.3, 1.0}, generator);
    if (kind == 0) params.adaptive_decay = one_of({0.0, 0.9, 0.99}, generator);
    if (kind == 1) params.mirostat = static_cast<std::uint8_t>(1 + generator() % 2);
    if (kind == 1) params.mirostat_tau = one_of({0.1, 5.0, 12.0, 20.0}, generator);
    if (kind > 1 && one_in(4, generator)) params.rng = static_cast<proto::Rng>(generator() % 4);
}

void add_answers(proto::SamplingParams& params, Generator& generator) {
    if (one_in(2, generator)) params.support = one_of({1U, 40U, 1000U, 65536U}, generator);
    if (one_in(2, generator)) params.logprob_mode = proto::LogprobMode::processed;
    if (one_in(2, generator)) params.logprobs = one_of({1U, 20U, 700U}, generator);
    if (one_in(4, generator)) params.flags = proto::kNoLogprob;
    if (one_in(4, generator)) params.flags |= proto::kRankCountsTies;
}

// Long histories, so that many tokens are changed.
void add_changes(LmCase& of, std::uint32_t vocab, Generator& generator) {
    const auto tokens = [&](std::uint64_t count) {
        std::vector<std::int32_t> list(count);
        for (auto& token : list) token = static_cast<std::int32_t>(generator() % vocab);
        return list;
    };
    proto::SamplingParams& params = of.params;
    of.prompt = tokens(one_of({0U, 30U, vocab / 2}, generator));
    of.output = tokens(one_of({1U, 100U, vocab}, generator));
    if (one_in(3, generator)) params.repetition_penalty = one_of({0.1, 0.8, 1.3, 100.0}, generator);
    if (one_in(3, generator)) params.frequency_penalty = one_of({-2.0, 0.01, 2.0}, generator);
    if (one_in(4, generator)) params.presence_penalty = one_of({-2.0, 0.5}, generator);
    if (one_in(4, generator)) params.dry_multiplier = one_of({0.8, 50.0}, generator);
    if (one_in(4, generator)) of.bias = {{5, 3.25F}, {900, -2.0F}, {901, 0.5F}};
    if (one_in(6, generator)) of.bad_words = {1, 7};
    if (one_in(4, generator)) {
        of.mask.resize((vocab + 31) / 32);
        for (std::uint32_t& word : of.mask) word = static_cast<std::uint32_t>(generator() | generator());
    }
}

void fill_request(LmCase& of, std::uint32_t vocab, Generator& generator) {
    of.params = {};
    for (auto* list : {&of.stop_ids, &of.allowed_ids, &of.bad_words, &of.breakers}) list->clear();
    of.bias.clear();
    of.mask.clear();
    of.hot_blocks.clear();
    of.params.seed = generator();
    of.params.temperature = one_of({0.2, 0.8, 1.0, 1.8, 50.0}, generator);
    if (one_in(24, generator)) of.params.temperature = 0.0;
    add_filters(of.params, vocab, generator);
    add_draw(of.params, generator);
    add_answers(of.params, generator);
    add_changes(of, vocab, generator);
    if (one_in(4, generator)) {
        std::vector<Step> steps(
            proto::kDefaultOrder.begin(),
            std::find(proto::kDefaultOrder.begin(), proto::kDefaultOrder.end(), Step::end));
        std::shuffle(steps.begin(), steps.end(), generator);
        std::copy(steps.begin(), steps.end(), of.params.order.begin());
    }
    bind_request(of);
    of.request.max_length = 1000000;
    if (one_in(2, generator)) of.request.feedback = {static_cast<double>(generator() % 80) * 0.1, 1.0};
}

void check_against_reference(const LmCase& of, Workspace& workspace, std::uint64_t number) {
    const RowFixture row(of.logits, of.shape, of.order_seed);
    const proto::Decision ours = decide_once(row.view(), of.request, workspace);
    const reference::Outcome expected = reference::decide(row.view(), of.request);
    const Answer& answer = workspace.answer();
    const std::string found = difference(outcome_of(ours, answer), expected, Logprobs::within_error);
    if (!found.empty())
        FAIL("case " << number << ": " << found << "; path " << name_of(answer.path) << "; " << describe(of));
}

}  // namespace

TEST_CASE("every chain over the classes of a long row decides and answers as the reference does") {
    Generator generator = seeded(20261128);
    const std::uint64_t cases = cases_to_compare("CROUPIER_ORACLE_CLASSES_CASES", 3000);
    std::uint64_t by_classes = 0;
    for (const std::uint32_t vocab : {700U, 3001U, 9000U}) {
        Workspace workspace(vocab);
        LmCase of;
        for (std::uint64_t number = 0; number < cases / 3; ++number) {
            if (number % 4 == 0) fill_row(of, vocab, generator);
            fill_request(of, vocab, generator);
            check_against_reference(of, workspace, number);
            by_classes += workspace.answer().path == DecisionPath::classes ? 1U : 0U;
        }
    }
    CHECK(by_classes > cases / 3);
}

// Penalties that add and take 2 round what they leave of tiny values.
TEST_CASE(
    "typical-p may keep some tokens of one value and none of the next, which is as far from the entropy") {
    constexpr std::uint32_t kVocab = 640;
    Workspace workspace(kVocab);
    LmCase of;
    of.shape.dtype = GENERATE(proto::Dtype::bf16, proto::Dtype::fp16, proto::Dtype::fp32);
    for (std::uint32_t token = 0; token < kVocab; ++token) {
        const auto step = static_cast<float>(token % 11);
        of.logits.push_back(token % 40 == 0 ? -1.0F : quantised(-6e-7F * step, of.shape.dtype));
        (token % 2 == 0 ? of.prompt : of.output).push_back(static_cast<std::int32_t>(token));
    }
    bind_request(of);
    of.request.max_length = 10000;
    of.params.repetition_penalty = 0.8;
    of.params.frequency_penalty = 2.0;
    of.params.presence_penalty = -2.0;
    of.params.temperature = 100.0;
    of.params.support = 1000;
    const bool late = GENERATE(false, true);
    if (late) of.params.order = {Step::temperature, Step::typical_p, Step::penalties};
    for (std::uint32_t part = 1; part < 200; ++part) {
        of.params.typical_p = 0.005 * part;
        check_against_reference(of, workspace, part);
    }
}

TEST_CASE("rng shvs proposes where penalties stand behind a dynamic temperature") {
    constexpr std::uint32_t kVocab = 300;
    Workspace workspace(kVocab);
    LmCase of;
    Generator generator = seeded(20261129);
    fill_lm_row(of, kVocab, proto::Dtype::bf16, generator);
    of.prompt = of.best;
    bind_request(of);
    of.request.max_length = 10000;
    of.params.rng = proto::Rng::shvs;
    of.params.dynatemp_range = 0.4;
    of.params.presence_penalty = -1.0;
    of.params.repetition_penalty = 1.3;
    of.params.order = {Step::temperature, Step::penalties};
    for (of.params.seed = 0; of.params.seed < 100; ++of.params.seed)
        check_against_reference(of, workspace, of.params.seed);
}

// A mixed class is half as wide where a float's exponent ends. So the class around the aim may reach farther
// from it than the next one, in which a token is drawn.
TEST_CASE("adaptive-p ranks tokens by their distance from its aim where classes change their width") {
    constexpr std::uint32_t kVocab = 256;
    Workspace workspace(kVocab);
    LmCase of;
    of.shape.dtype = proto::Dtype::fp32;
    bind_request(of);
    of.request.max_length = 100;
    of.params.logprob_mode = proto::LogprobMode::processed;
    of.params.logprobs = 1;
    SECTION("two tokens above all others") {
        for (std::uint32_t token = 0; token < kVocab; ++token)
            of.logits.push_back(-21.2F - 0.001F * static_cast<float>(token % 7));
        of.logits[40] = -15.95F;
        of.logits[90] = -16.12F;
        of.params.adaptive_target = 0.295;
        for (of.params.seed = 0; of.params.seed < 60; ++of.params.seed)
            check_against_reference(of, workspace, of.params.seed);
    }
    SECTION("some tokens around where an exponent ends, and an aim there") {
        Generator generator = seeded(20261130);
        const auto share = [&] { return static_cast<float>(generator() % 4096) / 4096.0F; };
        for (std::uint64_t number = 0; number < 3000; ++number) {
            const float end = one_of({-4.0F, -8.0F, -16.0F, -32.0F, 8.0F, 16.0F}, generator);
            const auto near_end = [&] { return end * (1.0F + 0.03F * (share() - 0.5F)); };
            of.logits.assign(kVocab, end - 7.0F);
            const std::uint64_t heads = 2 + generator() % 5;
            for (std::uint64_t i = 0; i < heads; ++i) of.logits[generator() % kVocab] = near_end();
            double total = 0.0;
            for (const float logit : of.logits) total += std::exp(static_cast<double>(logit));
            of.params.adaptive_target = std::exp(static_cast<double>(near_end())) / total;
            of.params.seed = number;
            check_against_reference(of, workspace, number);
        }
    }
}

}  // namespace croupier::sampler::test
