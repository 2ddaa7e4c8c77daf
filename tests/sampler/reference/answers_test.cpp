#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "probe.h"

namespace croupier::sampler::test {
namespace {

struct Expected {
    std::int32_t token;
    double probability;
    std::uint32_t rank;
};

void check_logprobs(const reference::Outcome& outcome, const std::vector<Expected>& expected) {
    REQUIRE(outcome.logprobs.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        INFO("entry " << i);
        CHECK(outcome.logprobs[i].token == expected[i].token);
        CHECK(std::exp(outcome.logprobs[i].logprob) == Approx(expected[i].probability).epsilon(1e-5));
        CHECK(outcome.logprobs[i].rank == expected[i].rank);
    }
    CHECK(outcome.logprobs.front().logprob == outcome.decision.logprob);
}

}  // namespace

TEST_CASE("reference: raw log-probs are of the row after the mask, ranks count what is strictly above") {
    Probe probe = Probe::of_probabilities({0.2, 0.3, 0.4, 0.2, 0.1});
    const std::vector<std::uint32_t> mask = {0b11011U};  // 0.8 are left
    const std::vector<proto::TokenBias> bias = {{4, 100.0F}};
    probe.request.mask = mask;
    probe.request.bias = bias;
    probe.params.temperature = 0.5;
    probe.params.logprobs = 3;
    check_logprobs(probe.decide(), {{4, 0.125, 4}, {1, 0.375, 1}, {0, 0.25, 2}, {3, 0.25, 2}});
    probe.params.logprobs = 1024;
    CHECK(probe.decide().logprobs.size() == 5);
}

TEST_CASE("reference: processed log-probs are of the distribution that was drawn from") {
    Probe probe = Probe::of_probabilities({0.1, 0.2, 0.3, 0.4});
    probe.params.logprob_mode = proto::LogprobMode::processed;
    probe.params.logprobs = 4;
    probe.params.top_k = 2;
    probe.params.temperature = 0.5;  // squares: 0.16 and 0.09
    const Expected best = {3, 0.64, 1};
    const Expected second = {2, 0.36, 2};
    std::set<std::int32_t> drawn;
    for (probe.params.seed = 0; probe.params.seed < 16; ++probe.params.seed) {
        const reference::Outcome outcome = probe.decide();
        drawn.insert(outcome.decision.token);
        check_logprobs(outcome, {outcome.decision.token == 3 ? best : second, best, second});
    }
    CHECK(drawn == std::set<std::int32_t>{2, 3});
}

TEST_CASE("reference: a greedy request's processed log-probs are of all adjusted logits at T = 1") {
    Probe probe = Probe::of_probabilities({0.25, 0.5, 0.25});
    const std::vector<proto::TokenBias> bias = {{0, static_cast<float>(std::log(4.0))}};
    probe.request.bias = bias;
    probe.params.temperature = 0.0;
    probe.params.logprob_mode = proto::LogprobMode::processed;
    probe.params.logprobs = 2;
    check_logprobs(probe.decide(), {{0, 1 / 1.75, 1}, {0, 1 / 1.75, 1}, {1, 0.5 / 1.75, 2}});
}

TEST_CASE("reference: the drawn token's log-prob comes without a list, or not at all") {
    Probe probe = Probe::of_probabilities({1.0, 3.0});
    probe.params.temperature = 0.0;
    CHECK(std::exp(probe.decision().logprob) == Approx(0.75));
    CHECK(probe.decide().logprobs.empty());
    probe.params.flags = proto::kNoLogprob;
    probe.params.logprobs = 2;
    CHECK(std::isnan(probe.decision().logprob));
    CHECK(probe.decide().logprobs.empty());
}

TEST_CASE("reference: stops are EOS, then stop ids, then length") {
    Probe probe({0.0F, 9.0F});
    probe.params.temperature = 0.0;
    probe.params.eos_token_id = 1;
    const Ids stops = {1};
    const Ids output = {0, 0};
    probe.request.output = output;
    const auto stop = [&probe] { return probe.decision().flags & proto::kStoppedMask; };
    CHECK(stop() == proto::kStoppedByEos);
    probe.params.flags = proto::kIgnoreEos;
    CHECK(stop() == 0);
    probe.params.max_tokens = 3;
    CHECK(stop() == proto::kStoppedByLength);
    probe.request.stop_ids = stops;
    CHECK(stop() == proto::kStoppedByToken);
    probe.request.stop_ids = {};
    probe.params.max_tokens = 4;
    CHECK(stop() == 0);
    probe.request.max_length = 3;
    CHECK(stop() == proto::kStoppedByLength);
}

TEST_CASE("reference: a tail that stands loop_count times in a row ends the output after what else would") {
    Probe probe({0.0F, 9.0F});
    probe.params.temperature = 0.0;
    probe.params.loop_max_period = 2;
    probe.params.loop_count = 2;
    const auto stop = [&probe](const Ids& output) {
        probe.request.output = output;
        return probe.decision().flags & proto::kStoppedMask;
    };
    CHECK(stop({}) == 0);
    CHECK(stop({0}) == 0);
    CHECK(stop({1}) == proto::kStoppedByLoop);
    CHECK(stop({0, 1, 0}) == proto::kStoppedByLoop);
    CHECK(stop({1, 0, 0, 1, 0, 0}) == 0);
    probe.params.loop_min_period = 2;
    CHECK(stop({1}) == 0);
    CHECK(stop({1, 1, 1}) == proto::kStoppedByLoop);
    probe.params.min_tokens = 4;
    CHECK(stop({1, 1, 1}) == 0);
    CHECK(stop({1, 1, 1, 1}) == proto::kStoppedByLoop);
    probe.params.max_tokens = 5;
    CHECK(stop({1, 1, 1, 1}) == proto::kStoppedByLength);
}

TEST_CASE("reference: with stops_only_ban neither EOS nor a stop id ends a sequence, and a length does") {
    Probe probe({0.0F, 9.0F});
    probe.params.temperature = 0.0;
    probe.params.eos_token_id = 1;
    probe.params.flags = proto::kStopsOnlyBan;
    const Ids stops = {1};
    probe.request.stop_ids = stops;
    CHECK((probe.decision().flags & proto::kStoppedMask) == 0);
    probe.params.max_tokens = 1;
    CHECK((probe.decision().flags & proto::kStoppedMask) == proto::kStoppedByLength);
}

TEST_CASE("reference: a rank counts the tokens above, and with rank_counts_ties those that are equal too") {
    Probe probe({3.0F, 1.0F, 1.0F, 1.0F, 0.0F});
    const std::vector<proto::TokenBias> bias = {{2, 50.0F}};
    probe.request.bias = bias;
    probe.params.temperature = 0.0;
    probe.params.logprobs = 1;
    CHECK(probe.decide().logprobs.front().rank == 2);
    probe.params.flags = proto::kRankCountsTies;
    CHECK(probe.decide().logprobs.front().token == 2);
    CHECK(probe.decide().logprobs.front().rank == 4);
}

TEST_CASE("reference: the account names each step that was on, in order, with what it left") {
    Probe probe = Probe::of_probabilities({0.1, 0.2, 0.3, 0.4});
    const std::vector<std::uint32_t> mask = {0b1110U};
    probe.request.mask = mask;
    probe.params.top_k = 2;
    probe.params.min_p = 0.01;
    const auto account = probe.decide().account;
    REQUIRE(account.size() == 5);
    CHECK(account[0].step == "mask");
    CHECK(account[0].tokens_left == 3);
    CHECK(account[0].mass_left == Approx(0.9));
    CHECK(account[1].step == "temperature");
    CHECK(account[1].mass_left == 1.0);
    CHECK(account[2].step == "min_p");
    CHECK(account[2].tokens_left == 3);
    CHECK(account[3].step == "top_k");
    CHECK(account[3].tokens_left == 2);
    CHECK(account[3].mass_left == Approx(0.7 / 0.9));
    CHECK(account[3].did == "kept the best 2");
    CHECK(account[4].step == "draw");
}

TEST_CASE("reference: the account tells which step left nothing") {
    Probe probe = Probe::of_probabilities({0.5, 0.5});
    const std::vector<std::uint32_t> mask = {1U};
    const Ids allowed = {1};
    probe.request.mask = mask;
    probe.request.allowed_ids = allowed;
    const reference::Outcome outcome = probe.decide();
    CHECK(outcome.decision.error == proto::DecisionError::no_token_left);
    REQUIRE(outcome.account.size() == 2);
    CHECK(outcome.account[1].step == "allowed_token_ids");
    CHECK(outcome.account[1].tokens_left == 0);
}

}  // namespace croupier::sampler::test
