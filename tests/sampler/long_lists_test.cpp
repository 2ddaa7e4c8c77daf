// Requests that say much of many tokens, or keep many: as the reference decides them, and by the path that
// does not list them all.
#include <catch2/catch.hpp>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "proto/decision.h"
#include "proto/dtype.h"
#include "proto/sampling.h"
#include "row_fixture.h"
#include "sampler/decide.h"
#include "sampler/reference/decide.h"
#include "testing/deciding.h"

using namespace croupier;
using namespace croupier::sampler;
using namespace croupier::sampler::test;

namespace {

constexpr std::uint32_t kVocab = 6000;

struct Control {
    const char* name;
    std::function<void(proto::SamplingParams&)> set;
};

RowFixture row_of(proto::Dtype dtype, double centre, std::uint32_t seed) {
    std::mt19937_64 generator(seed);
    std::normal_distribution<double> bell(centre, 3.0);
    std::vector<float> logits(kVocab);
    for (float& logit : logits) logit = quantised(static_cast<float>(bell(generator)), dtype);
    return {logits, {dtype, 64, 1, 0, {kVocab}, false, false}, 3};
}

// The paths that decided, in the order of their numbers.
std::vector<DecisionPath> check(const RowFixture& row, Request request, const std::string& what,
                                std::uint32_t draws = 24) {
    Workspace workspace(kVocab);
    std::vector<DecisionPath> paths;
    proto::SamplingParams params = *request.params;
    request.params = &params;
    for (std::uint32_t i = 0; i < draws; ++i) {
        params.seed = i;
        const proto::Decision expected = reference::decide(row.view(), request).decision;
        const proto::Decision decision = decide_once(row.view(), request, workspace);
        INFO(what << ", seed " << i);
        REQUIRE(decision.error == expected.error);
        REQUIRE(decision.token == expected.token);
        paths.push_back(workspace.answer().path);
    }
    return paths;
}

std::vector<proto::TokenBias> biases(std::size_t count, float most, std::uint32_t tokens) {
    std::mt19937_64 generator(count + tokens);
    std::uniform_real_distribution<float> bias(-most, most);
    std::vector<proto::TokenBias> all(count);
    for (proto::TokenBias& each : all)
        each = {static_cast<std::int32_t>(generator() % tokens), bias(generator)};
    return all;
}

}  // namespace

TEST_CASE("as many biases as there may be, several on one token, add up in the request's order") {
    const std::vector<Control> controls = {
        {"greedy", [](auto& p) { p.temperature = 0.0; }},
        {"temperature", [](auto&) {}},
        {"top_p", [](auto& p) { p.top_p = 0.9; }},
        {"min_p", [](auto& p) { p.min_p = 0.05; }},
        {"typical_p with penalties",
         [](auto& p) {
             p.typical_p = 0.9;
             p.repetition_penalty = 1.2;
         }},
        {"vllm", [](auto& p) { p.rng = proto::Rng::vllm; }},
    };
    const auto dtype = GENERATE(proto::Dtype::bf16, proto::Dtype::fp32);
    const auto row = row_of(dtype, 0.0, 11);
    for (const std::uint32_t tokens : {kVocab, 500U, 1U}) {
        for (const std::size_t count :
             {std::size_t{1}, std::size_t{2}, std::size_t{300}, std::size_t{proto::kMaxBias}}) {
            const auto bias = biases(count, 4.0F, tokens);
            for (const Control& control : controls) {
                proto::SamplingParams params;
                params.flags = proto::kNoLogprob;
                control.set(params);
                Request request;
                request.params = &params;
                request.bias = bias;
                request.max_length = 100;
                check(row, request,
                      std::string(control.name) + ", " + std::to_string(count) + " biases on " +
                          std::to_string(tokens) + " tokens",
                      4);
            }
        }
    }
}

TEST_CASE("more biases than there may be are refused") {
    const auto row = row_of(proto::Dtype::bf16, 0.0, 11);
    Workspace workspace(kVocab);
    proto::SamplingParams params;
    for (const std::size_t count : {std::size_t{proto::kMaxBias} + 1, std::size_t{70000}}) {
        const auto bias = biases(count, 4.0F, kVocab);
        Request request;
        request.params = &params;
        request.bias = bias;
        request.max_length = 100;
        CHECK(decide_once(row.view(), request, workspace).error == proto::DecisionError::bad_record);
        CHECK(reference::decide(row.view(), request).decision.error == proto::DecisionError::bad_record);
    }
}

TEST_CASE("draws of other engines do not score the whole row where the likely token is forbidden") {
    // Its block holds nothing else that is likely: reserved ids, say, beside the end of a sequence.
    std::mt19937_64 generator(17);
    std::normal_distribution<float> bell(0.0F, 2.0F);
    std::vector<float> logits(kVocab);
    for (std::uint32_t token = 0; token < kVocab; ++token)
        logits[token] = quantised(token < kVocab - 64 ? bell(generator) : -14.0F, proto::Dtype::bf16);
    logits[kVocab - 10] = 26.0F;
    const RowFixture row(logits, {proto::Dtype::bf16, 64, 1, 0, {kVocab}, false, false}, 3);
    proto::SamplingParams params;
    params.flags = proto::kNoLogprob;
    params.rng = GENERATE(proto::Rng::sglang, proto::Rng::vllm);
    params.eos_token_id = static_cast<std::int32_t>(kVocab - 10);
    params.min_tokens = 5;
    Request request;
    request.params = &params;
    request.max_length = 100;
    Workspace workspace(kVocab);
    for (params.seed = 0; params.seed < 40; ++params.seed) {
        CHECK(decide_once(row.view(), request, workspace).token ==
              reference::decide(row.view(), request).decision.token);
        CHECK(workspace.answer().candidates < kVocab);
    }
}

TEST_CASE("a thousand bad words forbid what the output is about to complete, and no more") {
    std::mt19937_64 generator(5);
    const std::vector<std::int32_t> output = {1, 2, 3, 4};
    std::vector<std::int32_t> words;
    for (int i = 0; i < 1000; ++i) {
        // Half of them are complete but for their last id.
        words.insert(words.end(),
                     {3, i % 2 == 0 ? 3 : 9, 4, static_cast<std::int32_t>(generator() % kVocab)});
    }
    const auto row = row_of(proto::Dtype::bf16, 0.0, 12);
    proto::SamplingParams params;
    params.flags = proto::kNoLogprob;
    params.top_p = GENERATE(1.0, 0.95);
    Request request;
    request.params = &params;
    request.output = output;
    request.bad_words = words;
    request.max_length = 100;
    check(row, request, "1,000 bad words");
}

TEST_CASE("a low min_p keeps thousands of tokens, and its winner is found without a list of them") {
    const auto dtype = GENERATE(proto::Dtype::bf16, proto::Dtype::fp32);
    const auto row = row_of(dtype, 0.0, 13);
    const std::vector<std::int32_t> prompt = {1, 2, 3, 500, 501, 502};
    std::vector<std::uint32_t> mask((kVocab + 31) / 32, 0x7FFF7FFFU);
    for (const double min_p : {1e-2, 1e-3, 1e-5, 1e-12, 1e-320}) {
        for (const double temperature : {0.7, 1.0, 2.0}) {
            for (const auto rng : {proto::Rng::race, proto::Rng::sglang, proto::Rng::vllm}) {
                for (const bool changed : {false, true}) {
                    proto::SamplingParams params;
                    params.flags = proto::kNoLogprob;
                    params.min_p = min_p;
                    params.temperature = temperature;
                    params.rng = rng;
                    Request request;
                    request.params = &params;
                    request.prompt = prompt;
                    request.max_length = 100;
                    if (changed) {
                        params.repetition_penalty = 0.8;
                        request.mask = mask;
                    }
                    const auto paths = check(row, request, "min_p " + std::to_string(min_p), 4);
                    if (min_p <= 1e-5) CHECK(paths.front() == DecisionPath::asked);
                }
            }
        }
    }
}

TEST_CASE("a low min_p beside another filter, or one that is asked for its distribution") {
    const auto dtype = GENERATE(proto::Dtype::bf16, proto::Dtype::fp32);
    const auto row = row_of(dtype, 0.0, 14);
    const std::vector<Control> controls = {
        {"top_p", [](auto& p) { p.top_p = 0.9; }},
        {"typical_p", [](auto& p) { p.typical_p = 0.6; }},
        {"XTC", [](auto& p) { p.xtc_probability = 1.0; }},
        {"top_k", [](auto& p) { p.top_k = 3000; }},
        {"mirostat 2", [](auto& p) { p.mirostat = 2; }},
        {"adaptive-p", [](auto& p) { p.adaptive_target = 0.2; }},
        {"dynamic temperature", [](auto& p) { p.dynatemp_range = 0.5; }},
        {"processed log-probs",
         [](auto& p) {
             p.flags = 0;
             p.logprob_mode = proto::LogprobMode::processed;
         }},
    };
    for (const Control& control : controls) {
        proto::SamplingParams params;
        params.flags = proto::kNoLogprob;
        params.min_p = 1e-6;
        params.temperature = 1.3;
        control.set(params);
        Request request;
        request.params = &params;
        request.max_length = 100;
        check(row, request, control.name, 8);
    }
}

TEST_CASE("draws of other engines are found by hashes at any temperature and any height") {
    const auto rng = GENERATE(proto::Rng::sglang, proto::Rng::vllm);
    const auto dtype = GENERATE(proto::Dtype::bf16, proto::Dtype::fp32);
    for (const double centre : {0.0, 300.0, -3e4, 1e6}) {
        const auto row = row_of(dtype, centre, 15);
        for (const double temperature : {1e-5, 1e-3, 0.01, 0.3, 1.0, 30.0}) {
            for (const double top_p : {1.0, 0.8}) {
                proto::SamplingParams params;
                params.flags = proto::kNoLogprob;
                params.rng = rng;
                params.temperature = temperature;
                params.top_p = top_p;
                const std::vector<proto::TokenBias> bias = {{17, 60.0F}, {18, -100.0F}};
                Request request;
                request.params = &params;
                request.max_length = 100;
                const std::string what = "centre " + std::to_string(centre) + ", T " +
                                         std::to_string(temperature) + ", top_p " + std::to_string(top_p);
                check(row, request, what, 6);
                request.bias = bias;
                check(row, request, what + ", biased", 3);
            }
        }
    }
}

TEST_CASE("a large top-k is the reference's whatever the dtype") {
    const auto dtype = GENERATE(proto::Dtype::bf16, proto::Dtype::fp16, proto::Dtype::fp32);
    const auto row = row_of(dtype, 0.0, 16);
    for (const std::int32_t top_k : {90, 97, 400, 1024, 1025, 2000, 5999}) {
        for (const double repetition : {1.0, 1.3, 0.8}) {
            proto::SamplingParams params;
            params.flags = proto::kNoLogprob;
            params.top_k = top_k;
            params.temperature = 2.0;
            params.repetition_penalty = repetition;
            const std::vector<std::int32_t> prompt = {1, 2, 3, 500, 501, 502};
            Request request;
            request.params = &params;
            request.prompt = prompt;
            request.max_length = 100;
            check(row, request, "top_k " + std::to_string(top_k), 6);
        }
    }
}
