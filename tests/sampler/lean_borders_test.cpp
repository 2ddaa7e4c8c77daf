// Winners at the very edge of a nucleus: what floats leave open does not cost a step the whole row.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "edge_cases.h"
#include "lean_fixture.h"
#include "lm_cases.h"
#include "sampler/row_mass.h"
#include "testing/agreement.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

constexpr std::uint32_t kVocab = 20000;

double penalised(const LmCase& of, std::uint32_t token) {
    const auto id = static_cast<std::int32_t>(token);
    const auto has = [&](const std::vector<std::int32_t>& tokens) {
        return std::find(tokens.begin(), tokens.end(), id) != tokens.end();
    };
    const auto logit = static_cast<double>(of.logits[token]);
    if (of.params.repetition_penalty == 1.0 || (!has(of.prompt) && !has(of.output))) return logit;
    return logit > 0 ? logit / of.params.repetition_penalty : logit * of.params.repetition_penalty;
}

// The share of all that stands before a token in canonical order, and what the row as it stood weighs of all.
struct Edge {
    double share;
    double row;
};
Edge edge_at(const LmCase& of, std::uint32_t token) {
    std::vector<double> values(kVocab);
    for (std::uint32_t id = 0; id < kVocab; ++id) values[id] = penalised(of, id);
    const double most = *std::max_element(values.begin(), values.end());
    double before = 0.0;
    double all = 0.0;
    double row = 0.0;
    for (std::uint32_t id = 0; id < kVocab; ++id) {
        const double weight = std::exp((values[id] - most) / of.params.temperature);
        all += weight;
        row += std::exp((static_cast<double>(of.logits[id]) - most) / of.params.temperature);
        const bool stands_before = values[id] > values[token] || (values[id] == values[token] && id < token);
        if (stands_before) before += weight;
    }
    return {before / all, row / all};
}

// Farther from an edge than a decision can be unsure of, which sees a sum that is off and knows by how much
// at most.
double unsure_at(const Edge& edge) {
    return edge.row * (2.1 * kSentWeightError + 1e-6 / edge.share);
}

// A row of one logit, without a history.
void fill_level(LmCase& of, float logit) {
    of.shape.dtype = proto::Dtype::fp32;
    of.logits.assign(kVocab, logit);
    of.prompt.clear();
    of.output.clear();
}

// Few tokens, in few blocks, weigh all there is, and one block has nothing.
constexpr std::uint32_t kEmptyBlock = 200;
void fill_few(LmCase& of, std::mt19937_64& generator) {
    fill_level(of, -40.0F);
    for (float& logit : of.logits) logit -= static_cast<float>(generator() % 1000) / 256.0F;
    for (std::uint32_t i = 0; i < 60; ++i)
        of.logits[std::size_t{i % 30} * 320 + generator() % kBlock] =
            static_cast<float>(generator() % 1000) / -256.0F;
    std::fill_n(of.logits.begin() + std::ptrdiff_t{kEmptyBlock} * kBlock, kBlock,
                -std::numeric_limits<float>::infinity());
}

// The token of the whole row, and how many blocks were asked for to find the same one in what was sent.
struct Agreed {
    std::int32_t token;
    std::uint32_t asked;
    int tries;
};
Agreed check_agreed(LeanRow& row, const LmCase& of, Workspace& workspace) {
    const std::int32_t token = decide_once(row.whole(), of.request, workspace).token;
    INFO(describe(of));
    const LeanDecision made = decide_lean(row, of.request, workspace);
    CHECK(made.outcome.decision.token == token);
    return {token, made.asked, made.tries};
}

}  // namespace

TEST_CASE("what penalties take behind a winner stood before it with all of its weight") {
    std::mt19937_64 generator(20261128);
    Workspace workspace(kVocab);
    LmCase of;
    int won = 0;
    for (int number = 0; number < 600; ++number) {
        fill_level(of, -40.0F);
        // Of three tokens that weigh something, the second falls behind the third, and its block is not
        // there.
        const float gap = 0.05F + 0.01F * static_cast<float>(generator() % 10);
        of.logits[5] = 5.0F + 2.0F * gap;
        of.logits[3843] = 5.0F + gap;
        of.logits[3207] = 5.0F;
        of.output.assign(1, 3843);
        race_all(of, 1.0, generator());
        of.params.presence_penalty =
            static_cast<double>(gap) + 0.02 * static_cast<double>(1 + generator() % 20);
        of.params.top_p = 0.4 + 0.002 * static_cast<double>(generator() % 200);
        SentParts parts = send_sums(of, 1);
        parts.drawn_by = drawn_by(of.request);
        parts.racers = 1 + static_cast<std::uint32_t>(generator() % 3);
        parts.summed_before = 2;
        LeanRow row(of.logits, of.shape, 1, parts);
        won += check_agreed(row, of, workspace).token == 3207 ? 1 : 0;
    }
    CHECK(won > 50);
}

TEST_CASE("next to a nucleus' edge, nobody asks for a history that weighs nothing") {
    std::mt19937_64 generator(20261127);
    Workspace workspace(kVocab);
    LmCase of;
    int edges = 0;
    for (int number = 0; number < 200; ++number) {
        fill_few(of, generator);
        // Where all other entries are 40 below, or none is above -inf.
        if (number % 2 == 0) {
            for (int i = 0; i < 1500; ++i)
                of.output.push_back(static_cast<std::int32_t>(11000 + generator() % 1500));
        } else {
            of.output.assign(1, static_cast<std::int32_t>(kEmptyBlock * kBlock + 1));
        }
        race_all(of, 0.7, generator());
        of.request.max_length = 2000;
        of.params.repetition_penalty = 1.1;
        LeanRow row(of.logits, of.shape, 1, send_sums(of, 48));
        const proto::Decision raced = decide_once(row.whole(), of.request, workspace);
        const Edge edge = edge_at(of, static_cast<std::uint32_t>(raced.token));
        if (edge.share < 0.05) continue;
        of.params.top_p = edge.share * (1.0 + (generator() % 2 == 0 ? 1.0 : -1.0) * unsure_at(edge));
        const Agreed agreed = check_agreed(row, of, workspace);
        INFO(describe(of));
        CHECK(agreed.asked == 0);
        ++edges;
    }
    CHECK(edges > 100);
}

// A token that the model is sure of and that penalties drive away; all others are of logits up to 0. Each
// logit is one of bf16, so that the sums that are sent are the row's.
void fill_sure(LmCase& of, float sure, std::uint64_t seed, std::mt19937_64& generator) {
    fill_level(of, 0.0F);
    of.shape.dtype = proto::Dtype::bf16;
    for (float& logit : of.logits) logit = static_cast<float>(generator() % 256) / -64.0F;
    of.logits[777] = sure;
    of.output.assign(40, 777);
    race_all(of, 1.0, seed);
    of.params.frequency_penalty = 1.0;
}

TEST_CASE("where penalties take all but what the row's sum is off, the rest is asked for at once") {
    std::mt19937_64 generator(20261129);
    Workspace workspace(kVocab);
    LmCase of;
    int others = 0;
    for (int number = 0; number < 40; ++number) {
        // Together some millionths of what the model is sure of.
        fill_sure(of, 21.0F, generator(), generator);
        of.params.top_p = 0.3 + 0.01 * static_cast<double>(generator() % 60);
        LeanRow row(of.logits, of.shape, 1, send_sums(of, 32));
        const Agreed agreed = check_agreed(row, of, workspace);
        CHECK(agreed.tries == 2);
        CHECK(agreed.asked > row.blocks() / 2);
        others += agreed.token != 777 ? 1 : 0;
    }
    CHECK(others == 40);
}

TEST_CASE("the less penalties leave of a row, the sooner all of it is asked for") {
    std::mt19937_64 generator(20261204);
    Workspace workspace(kVocab);
    LmCase of;
    int tries = 0;
    int most = 0;
    for (int number = 0; number < 200; ++number) {
        // What is left is from a third of what the sum is off to thirty times as much.
        fill_sure(of, 17.25F + 0.125F * static_cast<float>(generator() % 37), generator(), generator);
        of.params.top_p = 0.3 + 0.01 * static_cast<double>(generator() % 60);
        LeanRow row(of.logits, of.shape, 1, send_sums(of, 32));
        const Agreed agreed = check_agreed(row, of, workspace);
        tries += agreed.tries;
        most = std::max(most, agreed.tries);
    }
    CHECK(most <= 3);
    CHECK(tries < 200 * 5 / 2);
}

TEST_CASE("what is left keeps a winner where penalties have taken nearly all of the row") {
    std::mt19937_64 generator(20261205);
    Workspace workspace(kVocab);
    LmCase of;
    std::uint32_t asked = 0;
    int others = 0;
    for (int number = 0; number < 100; ++number) {
        fill_sure(of, 26.75F, generator(), generator);
        // Nearly all of what is left, in few blocks that are there.
        for (std::uint32_t i = 0; i < 4; ++i)
            of.logits[5000 + 2000 * std::size_t{i}] = of.logits[777] - 12.0F - 0.5F * static_cast<float>(i);
        of.params.top_p = 0.8 + 0.001 * static_cast<double>(generator() % 190);
        LeanRow row(of.logits, of.shape, 1, send_sums(of, 32));
        const Agreed agreed = check_agreed(row, of, workspace);
        asked += agreed.asked;
        others += agreed.token != 5000 ? 1 : 0;
    }
    CHECK(others > 20);
    CHECK(asked < 100 * 20);
}

TEST_CASE("who is first of what penalties leave is kept, far below what they took") {
    std::mt19937_64 generator(20261207);
    Workspace workspace(kVocab);
    LmCase of;
    int firsts = 0;
    for (int number = 0; number < 200; ++number) {
        // Of which the best stand 20 to 160 nats below what they took, and some history was not sent.
        const double temperature = std::array{0.05, 0.1, 0.2, 0.3}[generator() % 4];
        fill_level(of, 0.0F);
        of.shape.dtype = static_cast<proto::Dtype>(number % 3);
        for (float& logit : of.logits) logit = -2.0F - static_cast<float>(generator() % 128) / 64.0F;
        of.logits[777] = 20.0F;
        of.logits[5000] = 14.0F;
        of.logits[9000] = 13.75F;
        of.output.assign(40, 777);
        for (int i = 0; i < 50; ++i)
            of.output.push_back(static_cast<std::int32_t>(10000 + generator() % 5000));
        race_all(of, temperature, generator());
        of.params.frequency_penalty = 1.0;
        of.params.top_p = 0.5 + 0.001 * static_cast<double>(generator() % 490);
        LeanRow row(of.logits, of.shape, 1, send_sums(of, 96));
        const Agreed agreed = check_agreed(row, of, workspace);
        CHECK(agreed.asked < 10);
        firsts += agreed.token == 5000 ? 1 : 0;
        // Nor is a row counted that is there as a whole.
        (void)decide_once(row.whole(), of.request, workspace);
        CHECK(workspace.answer().path == DecisionPath::asked);
    }
    CHECK(firsts > 100);
    CHECK(firsts < 200);
}

TEST_CASE("a top-p below any token's share is a top-k of 1") {
    std::mt19937_64 generator(20261206);
    Workspace workspace(kVocab);
    LmCase of;
    for (int number = 0; number < 200; ++number) {
        fill_lm_row(of, kVocab, static_cast<proto::Dtype>(number % 3), generator);
        of.shape.tile = kBlock;
        race_all(of, std::array{0.2, 1.0, 3.0}[generator() % 3], generator());
        of.request.max_length = 100000;
        of.params.top_p = std::array{1e-5, 1e-6, 1e-8, 1e-12}[generator() % 4];
        if (generator() % 2 == 0) of.params.repetition_penalty = 1.2;
        if (generator() % 4 == 0) of.params.min_p = 0.1;
        if (generator() % 4 == 0) of.params.top_n_sigma = 1.0;
        if (generator() % 4 == 0) of.params.dynatemp_range = 0.1;
        LeanRow row(of.logits, of.shape, 1, send_sums(of, 96));
        const std::int32_t expected = reference::decide(row.whole(), of.request).decision.token;
        const Agreed agreed = check_agreed(row, of, workspace);
        CHECK(agreed.token == expected);
        CHECK(agreed.asked < 20);
        CHECK(workspace.answer().path == DecisionPath::head);
    }
}

TEST_CASE("of a long history no more is asked for than may decide") {
    std::mt19937_64 generator(20261130);
    Workspace workspace(kVocab);
    LmCase of;
    std::uint32_t asked = 0;
    for (int number = 0; number < 100; ++number) {
        // All of the history but few tokens weighs next to nothing, in blocks of its own.
        fill_level(of, 0.0F);
        for (float& logit : of.logits) logit = -12.0F - static_cast<float>(generator() % 1000) / 256.0F;
        for (std::uint32_t i = 0; i < 40; ++i) of.logits[std::size_t{i} * 384 + generator() % kBlock] = 1.0F;
        for (std::uint32_t id = 1; id < kVocab; id += 16) of.output.push_back(static_cast<std::int32_t>(id));
        race_all(of, 1.0, generator());
        of.request.max_length = 3000;
        of.params.presence_penalty = 0.2;
        of.params.top_p = 0.2 + 0.006 * static_cast<double>(generator() % 100);
        LeanRow row(of.logits, of.shape, 1, send_sums(of, 8));
        asked += check_agreed(row, of, workspace).asked;
    }
    CHECK(asked > 0);
    CHECK(asked < 100 * 120);
}

TEST_CASE("a winner next to its nucleus' edge is judged without the rest of the row") {
    std::mt19937_64 generator(20261126);
    Workspace workspace(kVocab);
    LmCase of;
    int edges = 0;
    int whole_rows = 0;
    for (int number = 0; number < 400; ++number) {
        fill_lm_row(of, kVocab, static_cast<proto::Dtype>(number % 3), generator);
        of.prompt.assign(of.best.begin(),
                         of.best.begin() + std::min<std::ptrdiff_t>(20, std::ssize(of.best)));
        of.output.assign(1, static_cast<std::int32_t>(generator() % kVocab));
        race_all(of, std::array{0.6, 0.8, 1.0}[generator() % 3], generator());
        if (number % 2 == 0) of.params.repetition_penalty = 1.1;
        SentParts parts = send_sums(of, 0);
        parts.all = true;
        parts.error = std::array{0.99, 0.0, -0.99}[generator() % 3] * kSentWeightError;
        LeanRow row(of.logits, of.shape, 1, parts);
        const proto::Decision raced = decide_once(row.whole(), of.request, workspace);
        if (raced.error != proto::DecisionError::none) continue;
        const Edge edge = edge_at(of, static_cast<std::uint32_t>(raced.token));
        const double unsure = unsure_at(edge);
        const double off = unsure * std::array{0.0, 0.5, 1.0, -1.0, 2.0, -2.0}[generator() % 6];
        of.params.top_p = edge.share * (1.0 + off);
        if (edge.share < 0.05 || of.params.top_p >= 1.0) continue;
        const proto::Decision whole = decide_once(row.whole(), of.request, workspace);
        const reference::Outcome expected = outcome_of(whole, workspace.answer());
        const std::string fault =
            difference(decide_lean(row, of.request, workspace).outcome, expected, Logprobs::within_error);
        if (!fault.empty()) FAIL(fault << "; " << describe(of));
        if (std::abs(off) < unsure) continue;
        ++edges;
        const DecisionPath path = workspace.answer().path;
        whole_rows += path == DecisionPath::classes ? 1 : 0;
    }
    REQUIRE(edges > 50);
    CHECK(whole_rows == 0);
}

}  // namespace croupier::sampler::test
