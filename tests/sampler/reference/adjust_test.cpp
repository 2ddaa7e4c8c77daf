#include <catch2/catch.hpp>
#include <cmath>

#include "probe.h"

namespace croupier::sampler::test {
namespace {

const std::vector<double> kFifths(5, 0.2);

// What a logit that moved by `by` weighs among `others` tokens of weight 1.
double share_after(double by, int others) {
    return std::exp(by) / (std::exp(by) + others);
}

}  // namespace

TEST_CASE("reference: the mask's least significant bit is the first token's") {
    Probe probe(std::vector<float>(40, 1.0F));
    const std::vector<std::uint32_t> mask = {1U << 31U | 1U, 1U << 2U};
    probe.request.mask = mask;
    CHECK(probe.kept() == Ids{0, 31, 34});
}

TEST_CASE("reference: allowed ids forbid all others") {
    Probe probe = Probe::of_probabilities(kFifths);
    const Ids allowed = {4, 1, 1};
    probe.request.allowed_ids = allowed;
    CHECK(probe.kept() == Ids{1, 4});
}

TEST_CASE("reference: a bad word's last id is banned when the output ends with the rest") {
    Probe probe = Probe::of_probabilities(kFifths);
    const Ids words = {1, 0, 3, 1, 2, 3, 2, 2, 4};  // (0), (1 2 3), (2 4)
    probe.request.bad_words = words;
    SECTION("one-token words always") {
        CHECK(probe.kept() == Ids{1, 2, 3, 4});
    }
    SECTION("longer words after their beginning") {
        const Ids output = {4, 1, 2};
        probe.request.output = output;
        CHECK(probe.kept() == Ids{1, 2});
    }
    SECTION("not where the prompt holds the beginning") {
        const Ids prompt = {1};
        const Ids output = {2};
        probe.request.prompt = prompt;
        probe.request.output = output;
        CHECK(probe.kept() == Ids{1, 2, 3});
    }
}

TEST_CASE("reference: EOS and the stop ids are banned until min_tokens, also when EOS is ignored") {
    Probe probe = Probe::of_probabilities(kFifths);
    const Ids stops = {3};
    const Ids output = {0, 0};
    probe.request.stop_ids = stops;
    probe.request.output = output;
    probe.params.eos_token_id = 1;
    probe.params.flags = GENERATE(0U, proto::kIgnoreEos);
    probe.params.min_tokens = 3;
    CHECK(probe.kept() == Ids{0, 2, 4});
    probe.params.min_tokens = 2;
    CHECK(probe.kept() == Ids{0, 1, 2, 3, 4});
}

TEST_CASE("reference: biases are added, also twice to one token, and lift nothing that is forbidden") {
    Probe probe = Probe::of_probabilities({0.5, 0.5, 0.5});
    const std::vector<proto::TokenBias> bias = {{0, 1.0F}, {0, 1.0F}, {2, 100.0F}};
    const std::vector<std::uint32_t> mask = {3U};
    probe.request.bias = bias;
    probe.request.mask = mask;
    check_support(probe, {{0, share_after(2.0, 1)}, {1, 1.0 - share_after(2.0, 1)}});
}

TEST_CASE("reference: llama.cpp's published repetition penalties") {
    Probe probe = Probe::of_probabilities(kFifths);
    probe.params.repetition_penalty = 50.0;
    SECTION("one token") {
        const Ids prompt = {0};
        probe.request.prompt = prompt;
        check_support(probe, {{0, 0.0}, {1, 0.25}, {2, 0.25}, {3, 0.25}, {4, 0.25}});
    }
    SECTION("once a token, in prompt or output") {
        const Ids prompt = {0, 1, 0};
        const Ids output = {2, 0};
        probe.request.prompt = prompt;
        probe.request.output = output;
        check_support(probe, {{0, 0.0}, {1, 0.0}, {2, 0.0}, {3, 0.5}, {4, 0.5}});
    }
}

TEST_CASE("reference: the repetition penalty divides what is above zero and multiplies the rest") {
    Probe probe({2.0F, -2.0F, 0.0F, 0.0F});
    probe.params.repetition_penalty = 2.0;
    const Ids output = {0, 1, 2};
    probe.request.output = output;
    const double total = std::exp(1.0) + std::exp(-4.0) + 2.0;
    check_support(probe,
                  {{0, std::exp(1.0) / total}, {1, std::exp(-4.0) / total}, {2, 1 / total}, {3, 1 / total}});
}

TEST_CASE("reference: frequency and presence penalties count the output alone") {
    Probe probe = Probe::of_probabilities(kFifths);
    const Ids prompt = {1, 1};
    const Ids output = {0, 0, 0};
    probe.request.prompt = prompt;
    probe.request.output = output;
    probe.params.frequency_penalty = 0.5;
    probe.params.presence_penalty = 0.25;
    const double own = share_after(-1.75, 4);
    const double other = (1.0 - own) / 4;
    check_support(probe, {{0, own}, {1, other}, {2, other}, {3, other}, {4, other}});
}

TEST_CASE("reference: a penalty window counts the newest of prompt and output together") {
    Probe probe = Probe::of_probabilities(kFifths);
    const Ids prompt = {2, 1, 1};
    const Ids output = {0};
    probe.request.prompt = prompt;
    probe.request.output = output;
    probe.params.presence_penalty = 1.0;
    SECTION("three tokens") {
        probe.params.penalty_last_n = 3;
        const double total = 3.0 + 2.0 * std::exp(-1.0);
        const double low = std::exp(-1.0) / total;
        check_support(probe, {{0, low}, {1, low}, {2, 1 / total}, {3, 1 / total}, {4, 1 / total}});
    }
    SECTION("more than there are") {
        probe.params.penalty_last_n = 100;
        CHECK(probe.support().at(2) == Approx(probe.support().at(0)));
    }
    SECTION("none") {
        probe.params.penalty_last_n = 0;
        check_support(probe, {{0, 0.2}, {1, 0.2}, {2, 0.2}, {3, 0.2}, {4, 0.2}});
    }
}

TEST_CASE("reference: adjustments come before the repetition penalty, which sees the biased logit") {
    Probe probe({-1.0F, 0.0F});
    const std::vector<proto::TokenBias> bias = {{0, 3.0F}};
    const Ids output = {0};
    probe.request.bias = bias;
    probe.request.output = output;
    probe.params.repetition_penalty = 2.0;
    check_support(probe, {{0, share_after(1.0, 1)}, {1, 1.0 - share_after(1.0, 1)}});
}

}  // namespace croupier::sampler::test
