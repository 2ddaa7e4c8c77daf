// A row that was drawn by those who sent it has the token that its whole row decides, and a draw of anything
// else than what the request asks for is not taken.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "case_generator.h"
#include "lean_fixture.h"
#include "lm_cases.h"
#include "more_cases.h"
#include "strange_rows.h"
#include "testing/agreement.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

constexpr std::array kTemperatures = {0.0, 0.001, 0.01, 0.05, 0.3, 0.7, 0.8, 1.0, 1.3, 2.0, 5.0};

// A token drawn at a temperature alone, or greedily, of the case's row.
void ask_plainly(RandomCase& out, std::mt19937_64& generator) {
    out.params = {};
    out.params.flags = proto::kNoLogprob;
    out.params.seed = generator();
    out.params.temperature = kTemperatures[generator() % kTemperatures.size()];
    out.params.child = static_cast<std::uint32_t>(generator() % 3);
    out.params.eos_token_id = 0;
    for (auto* list :
         {&out.prompt, &out.output, &out.stop_ids, &out.allowed_ids, &out.bad_words, &out.breakers})
        list->clear();
    out.bias.clear();
    out.mask.clear();
    out.prompt.assign(1 + generator() % 5, 0);
    out.output.assign(generator() % 5, 0);
    bind_request(out);
    out.request.max_length = 100;
}

// What engines write for controls that are off, and what is off for the greedy.
void add_idle_controls(RandomCase& out, std::mt19937_64& generator) {
    if (generator() % 4 == 0) out.params.top_k = static_cast<std::int32_t>(out.logits.size());
    if (generator() % 4 == 0) out.params.min_tokens = static_cast<std::uint32_t>(out.output.size());
    if (out.params.temperature >= 0.01) return;
    out.params.temperature = 0.0;
    if (generator() % 4 == 0) out.params.top_p = 0.5;
    if (generator() % 4 == 0) out.params.mirostat = 2;
}

void check_drawn(RandomCase& of, bool drawn, Workspace& workspace) {
    SentParts parts;
    parts.drawn_by = drawn_by(of.request);
    LeanRow row(of.logits, of.shape, of.order_seed, parts);
    const proto::Decision whole = decide_once(row.whole(), of.request, workspace);
    const reference::Outcome expected = outcome_of(whole, workspace.answer());
    const LeanDecision lean = decide_lean(row, of.request, workspace);
    const std::string fault = difference(lean.outcome, expected, Logprobs::bit_for_bit);
    if (!fault.empty()) FAIL(fault << "; " << describe(of));
    if (!drawn) return;
    INFO(describe(of));
    REQUIRE(lean.asked == 0);
    REQUIRE(workspace.answer().path == DecisionPath::drawn);
    REQUIRE(workspace.answer().blocks_read == 0);
}

LmCase& plain_case(LmCase& out, std::uint32_t vocab) {
    std::mt19937_64 generator(20261211);
    fill_lm_row(out, vocab, proto::Dtype::bf16, generator);
    out.shape.shards = {vocab / 2 + 7, vocab - vocab / 2 - 7};
    ask_plainly(out, generator);
    out.params.temperature = 0.8;
    out.params.child = 0;  // other engines have none
    return out;
}

}  // namespace

TEST_CASE("rows that their writers drew are decided as whole rows, wherever ranks were cut") {
    std::mt19937_64 generator = seeded(20261209);
    LmCase lm_case;
    const auto cases = cases_to_compare("CROUPIER_LEAN_TIMES", 1) * 400;
    for (std::uint64_t number = 0; number < cases; ++number) {
        const auto vocab = static_cast<std::uint32_t>(1000 + generator() % 3000);
        const auto dtype = static_cast<proto::Dtype>(generator() % 3);
        Workspace workspace(vocab);
        fill_lm_row(lm_case, vocab, dtype, generator);
        constexpr std::array kRanks = {1U, 2U, 4U};
        lm_case.shape = lm_shape(vocab, kRanks[generator() % 3], kBlock, dtype, generator);
        lm_case.order_seed = generator();
        for (int i = 0; i < 5; ++i) {
            ask_plainly(lm_case, generator);
            add_idle_controls(lm_case, generator);
            // Of a rank with nothing above -inf nobody draws.
            check_drawn(lm_case, lm_case.shape.shards.size() < 2, workspace);
        }
    }
}

TEST_CASE("strange rows that their writers drew are decided as whole rows") {
    std::mt19937_64 generator = seeded(20261210);
    RandomCase random_case;
    for (const std::uint32_t vocab : {1U, 64U, 65U, 1000U, 20000U}) {
        Workspace workspace(vocab);
        const auto times = cases_to_compare("CROUPIER_LEAN_TIMES", 1) * (vocab == 20000 ? 10 : 60);
        for (std::uint32_t kind = 0; kind < kStrangeRows * times; ++kind) {
            fill_case(random_case, vocab, generator);
            random_case.logits = strange_row(kind % kStrangeRows, vocab, random_case.shape.dtype, generator);
            ask_plainly(random_case, generator);
            add_idle_controls(random_case, generator);
            check_drawn(random_case, false, workspace);
        }
    }
}

TEST_CASE("a draw of another race, of nobody's token or of less than all ranks is not taken") {
    constexpr std::uint32_t kVocab = 5000;
    LmCase lm_case;
    plain_case(lm_case, kVocab);
    Workspace workspace(kVocab);
    SentParts parts;
    parts.drawn_by = drawn_by(lm_case.request);
    const auto path_with = [&](auto spoil) {
        LeanRow row(lm_case.logits, lm_case.shape, 1, parts);
        const std::int32_t token = decide_once(row.whole(), lm_case.request, workspace).token;
        // The winner among all, as far as the draws say.
        auto& draw = row.column(0).draw->beats(*row.column(1).draw) ? row.column(0).draw : row.column(1).draw;
        spoil(draw);
        const LeanDecision made = decide_lean(row, lm_case.request, workspace);
        CHECK(made.outcome.decision.token == token);
        return workspace.answer().path;
    };
    using Draw = std::optional<proto::race::Draw>;
    CHECK(path_with([](Draw&) {}) == DecisionPath::drawn);
    CHECK(path_with([](Draw& draw) { draw.reset(); }) == DecisionPath::race);
    CHECK(path_with([](Draw& draw) { draw->key.seed ^= std::uint64_t{1} << 40U; }) == DecisionPath::race);
    CHECK(path_with([](Draw& draw) { ++draw->key.position; }) == DecisionPath::race);
    CHECK(path_with([](Draw& draw) { ++draw->key.child; }) == DecisionPath::race);
    CHECK(path_with([](Draw& draw) { draw->temperature = 0.0F; }) == DecisionPath::race);
    CHECK(path_with([](Draw& draw) { draw->temperature = std::nextafter(draw->temperature, 1.0F); }) ==
          DecisionPath::race);
    CHECK(path_with([](Draw& draw) { draw->token = kVocab; }) == DecisionPath::race);
    CHECK(path_with([](Draw& draw) { draw->token = ~0U; }) == DecisionPath::race);
    CHECK(path_with([](Draw& draw) { draw->token = draw->token < 2507 ? 2507 : 2506; }) ==
          DecisionPath::race);
    CHECK(path_with([](Draw& draw) { draw->score = std::numeric_limits<float>::quiet_NaN(); }) ==
          DecisionPath::race);
}

TEST_CASE("a draw beside what was sent is the winner while penalties leave it ahead of its rival") {
    constexpr std::uint32_t kVocab = 5000;
    LmCase lm_case;
    plain_case(lm_case, kVocab);
    Workspace workspace(kVocab);
    SentParts parts;
    parts.all = true;
    parts.drawn_by = drawn_by(lm_case.request);
    LeanRow row(lm_case.logits, lm_case.shape, 1, parts);
    const std::int32_t plain = decide_once(row.whole(), lm_case.request, workspace).token;
    const auto reads = [&](auto set, float rival) {
        lm_case.params.repetition_penalty = 1.0;
        set();
        for (const std::size_t rank : {0U, 1U}) row.column(rank).draw->rival = rival;
        const std::int32_t whole = decide_once(row.whole(), lm_case.request, workspace).token;
        CHECK(decide_lean(row, lm_case.request, workspace).outcome.decision.token == whole);
        CHECK(workspace.answer().path == DecisionPath::race);
        return workspace.answer().blocks_read;
    };
    const float score = std::max(row.column(0).draw->score, row.column(1).draw->score);
    const float rival = std::max({row.column(0).draw->rival, row.column(1).draw->rival,
                                  std::min(row.column(0).draw->score, row.column(1).draw->score)});
    // Of a token that is not in the history nothing changes.
    CHECK(reads([&] { lm_case.params.repetition_penalty = 1.5; }, score) == 0);
    REQUIRE(!lm_case.output.empty());
    lm_case.output.back() = plain;
    CHECK(reads([&] { lm_case.params.repetition_penalty = 1.0 + 1e-6; }, rival) == 0);
    CHECK(reads([&] { lm_case.params.repetition_penalty = 1.0 + 1e-6; }, score) > 0);
    CHECK(reads([&] { lm_case.params.repetition_penalty = 100.0; }, rival) > 0);
    // What may raise others leaves nobody ahead for sure.
    lm_case.output.back() = plain == 0 ? 1 : 0;
    CHECK(reads([&] { lm_case.params.repetition_penalty = 0.9; }, rival) > 0);
}

// Its row with the best seven of its race, and nothing else but maxima; in its prompt there is room for
// these.
struct RacedCase {
    static constexpr std::uint32_t kVocab = 5000;
    LmCase lm_case;
    SentParts parts;

    RacedCase() {
        plain_case(lm_case, kVocab);
        lm_case.shape.shards = {kVocab};
        lm_case.prompt.assign(proto::kMostRacers, kVocab - 1);
        bind_request(lm_case);
        lm_case.request.max_length = 100;
        lm_case.params.repetition_penalty = 100.0;
        parts.drawn_by = drawn_by(lm_case.request);
        parts.racers = proto::kMostRacers;
    }
    // How many blocks were asked for; the token is the whole row's.
    std::uint32_t asked(LeanRow& row) {
        Workspace workspace(kVocab);
        const std::int32_t whole = decide_once(row.whole(), lm_case.request, workspace).token;
        const LeanDecision made = decide_lean(row, lm_case.request, workspace);
        CHECK(made.outcome.decision.token == whole);
        return made.asked;
    }
};

TEST_CASE("where penalties take the best back the next of the race's best wins, and no block is asked for") {
    RacedCase raced;
    LeanRow row(raced.lm_case.logits, raced.lm_case.shape, 1, raced.parts);
    const proto::Racers best = *row.column(0).racers;
    REQUIRE(best.count == proto::kMostRacers);
    CHECK(raced.asked(row) == 0);
    for (std::uint32_t i = 0; i < best.count; ++i) {
        raced.lm_case.prompt[i] = static_cast<std::int32_t>(best.best[i].token);
        CHECK((raced.asked(row) == 0) == (i + 1 < best.count));
    }
}

TEST_CASE("a race's best that cannot be right are not taken") {
    const auto asked_with = [](auto spoil) {
        RacedCase raced;
        LeanRow row(raced.lm_case.logits, raced.lm_case.shape, 1, raced.parts);
        spoil(row.column(0));
        return raced.asked(row);
    };
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    CHECK(asked_with([](LeanColumn&) {}) == 0);
    CHECK(asked_with([](LeanColumn& of) { of.racers->count = 0; }) > 0);
    CHECK(asked_with([](LeanColumn& of) { of.racers->count = proto::kMostRacers + 1; }) > 0);
    CHECK(asked_with([](LeanColumn& of) { of.racers->count = ~0U; }) > 0);
    CHECK(asked_with([](LeanColumn& of) { of.racers->best[2].token = RacedCase::kVocab; }) > 0);
    CHECK(asked_with([](LeanColumn& of) { of.racers->best[2].token = ~0U; }) > 0);
    CHECK(asked_with([=](LeanColumn& of) { of.racers->best[2].score = kNan; }) > 0);
    CHECK(asked_with([=](LeanColumn& of) { of.racers->rival = kNan; }) > 0);
    CHECK(asked_with([](LeanColumn& of) { of.draw.reset(); }) > 0);
    CHECK(asked_with([](LeanColumn& of) { ++of.draw->key.seed; }) > 0);
}

TEST_CASE("what asks for more than a draw is decided by the row") {
    constexpr std::uint32_t kVocab = 5000;
    LmCase lm_case;
    Workspace workspace(kVocab);
    const auto path_with = [&](auto change) {
        plain_case(lm_case, kVocab);
        change(lm_case);
        SentParts parts;
        parts.drawn_by = drawn_by(lm_case.request);
        LeanRow row(lm_case.logits, lm_case.shape, 1, parts);
        const proto::Decision whole = decide_once(row.whole(), lm_case.request, workspace);
        REQUIRE(whole.error == proto::DecisionError::none);
        const reference::Outcome expected = outcome_of(whole, workspace.answer());
        const LeanDecision made = decide_lean(row, lm_case.request, workspace);
        CHECK(difference(made.outcome, expected, Logprobs::within_error).empty());
        return workspace.answer().path;
    };
    using Case = LmCase;
    CHECK(path_with([](Case&) {}) == DecisionPath::drawn);
    CHECK(path_with([](Case& c) { c.params.temperature = 0.0; }) == DecisionPath::drawn);
    CHECK(path_with([](Case& c) { c.params.top_k = kVocab; }) == DecisionPath::drawn);
    CHECK(path_with([](Case& c) { c.params.dry_allowed_length = 5; }) == DecisionPath::drawn);
    CHECK(path_with([](Case& c) { c.params.flags = 0; }) != DecisionPath::drawn);
    CHECK(path_with([](Case& c) { c.params.support = 3; }) != DecisionPath::drawn);
    CHECK(path_with([](Case& c) { c.request.wants_support = true; }) != DecisionPath::drawn);
    CHECK(path_with([](Case& c) { c.params.min_tokens = 9; }) != DecisionPath::drawn);
    CHECK(path_with([](Case& c) { c.params.top_k = 10; }) != DecisionPath::drawn);
    CHECK(path_with([](Case& c) { c.params.top_p = 0.9; }) != DecisionPath::drawn);
    CHECK(path_with([](Case& c) { c.params.min_p = 0.1; }) != DecisionPath::drawn);
    CHECK(path_with([](Case& c) { c.params.typical_p = 0.9; }) != DecisionPath::drawn);
    CHECK(path_with([](Case& c) { c.params.top_n_sigma = 1.0; }) != DecisionPath::drawn);
    CHECK(path_with([](Case& c) { c.params.xtc_probability = 0.5; }) != DecisionPath::drawn);
    CHECK(path_with([](Case& c) { c.params.dynatemp_range = 0.5; }) != DecisionPath::drawn);
    CHECK(path_with([](Case& c) { c.params.mirostat = 1; }) != DecisionPath::drawn);
    CHECK(path_with([](Case& c) { c.params.adaptive_target = 0.5; }) != DecisionPath::drawn);
    CHECK(path_with([](Case& c) { c.params.repetition_penalty = 1.1; }) != DecisionPath::drawn);
    CHECK(path_with([](Case& c) { c.params.frequency_penalty = 0.1; }) != DecisionPath::drawn);
    CHECK(path_with([](Case& c) { c.params.presence_penalty = -0.1; }) != DecisionPath::drawn);
    CHECK(path_with([](Case& c) { c.params.dry_multiplier = 1.0; }) != DecisionPath::drawn);
    CHECK(path_with([](Case& c) { c.params.order = {proto::Step::penalties}; }) != DecisionPath::drawn);
    for (const auto rng : {proto::Rng::shvs, proto::Rng::sglang, proto::Rng::vllm})
        CHECK(path_with([rng](Case& c) { c.params.rng = rng; }) != DecisionPath::drawn);
    const std::vector<std::int32_t> ids = {1, 2, 3};
    const std::vector<proto::TokenBias> bias = {{5, 1.0F}};
    const std::vector<std::uint32_t> mask((kVocab + 31) / 32, 0xFFFFFFFEU);
    CHECK(path_with([&](Case& c) { c.request.allowed_ids = ids; }) != DecisionPath::drawn);
    CHECK(path_with([&](Case& c) { c.request.bad_words = std::span(ids).first(2); }) != DecisionPath::drawn);
    CHECK(path_with([&](Case& c) { c.request.bias = bias; }) != DecisionPath::drawn);
    CHECK(path_with([&](Case& c) { c.request.mask = mask; }) != DecisionPath::drawn);
    CHECK(path_with([&](Case& c) { c.request.stop_ids = ids; }) == DecisionPath::drawn);
}

}  // namespace croupier::sampler::test
