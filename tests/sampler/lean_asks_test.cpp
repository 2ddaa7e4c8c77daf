// What a decision over a part of a row takes for there, what it asks for, and how often.
#include <algorithm>
#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "allocation_count.h"
#include "case_generator.h"
#include "lean_fixture.h"
#include "lm_cases.h"
#include "sampler/blocked_row.h"
#include "sampler/decide.h"
#include "sampler/race_arrivals.h"
#include "sampler/race_key.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

constexpr std::uint32_t kVocab = 151936;
constexpr std::uint32_t kBlocks = kVocab / kBlock;

// Of a case whose request asks for nothing but a token drawn at a temperature of 1.
void ask_plainly(LmCase& out) {
    out.params = {};
    out.params.flags = proto::kNoLogprob;
    out.params.seed = 77;
    for (auto* list : {&out.prompt, &out.output, &out.allowed_ids, &out.bad_words, &out.breakers})
        list->clear();
    out.bias.clear();
    out.mask.clear();
    out.hot_blocks.clear();
    bind_request(out);
    out.request.max_length = 100;
    out.request.random = 12345;
}

LmCase& plain_case(LmCase& out, proto::Dtype dtype = proto::Dtype::bf16) {
    std::mt19937_64 generator(20261206);
    fill_lm_row(out, kVocab, dtype, generator);
    ask_plainly(out);
    return out;
}

LeanDecision decided(const LmCase& of, const SentParts& parts, Workspace& workspace) {
    LeanRow row(of.logits, of.shape, 1, parts);
    LeanDecision made = decide_lean(row, of.request, workspace);
    REQUIRE(made.outcome.decision.error == proto::DecisionError::none);
    return made;
}

SentParts best_blocks(std::uint32_t best, bool sums) {
    SentParts parts;
    parts.best = best;
    parts.sums = sums;
    return parts;
}

bool is_missing(const LeanBlocks& lean, std::uint32_t block) {
    return (lean.missing[block / 64] >> (block % 64) & 1U) != 0;
}

// What is there is the whole row's, and what is not is nothing.
void check_blocks(const LeanRow& row, const BlockedRow& whole, const std::vector<float>& maxima,
                  Workspace& workspace) {
    const BlockedRow laid = lay_in_blocks(row.view(), workspace);
    const std::size_t bytes = std::size_t{kBlock} * proto::element_bytes(laid.dtype);
    const LeanBlocks& lean = *laid.lean;
    std::uint32_t asked = 0;
    for (std::uint32_t b = 0; b < laid.blocks; ++b) {
        REQUIRE(lean.is_there(b) == row.is_there(b));
        const float own = workspace.block_max[b];
        REQUIRE((own == maxima[b] || (std::isnan(own) && std::isnan(maxima[b]))));
        const bool to_ask = !row.is_there(b) && own != -std::numeric_limits<float>::infinity();
        (void)laid.ahead(b);
        (void)laid.runs.front().ahead(b);
        REQUIRE(laid.asked() == asked);
        const std::byte* elements = laid.block(b);
        asked += to_ask ? 1 : 0;
        REQUIRE(laid.asked() == asked);
        REQUIRE(is_missing(lean, b) == to_ask);
        if (row.is_there(b)) {
            REQUIRE(std::memcmp(elements, whole.block(b), bytes) == 0);
        } else {
            for (std::uint32_t i = 0; i < kBlock; ++i)
                REQUIRE(laid.value_in(elements, i) == -std::numeric_limits<float>::infinity());
        }
        (void)laid.block(b);
        REQUIRE(laid.asked() == asked);
    }
}

}  // namespace

TEST_CASE("blocks of a part of a row are those of the row, wherever ranks were cut") {
    std::mt19937_64 generator(20261207);
    RandomCase random_case;
    for (int number = 0; number < 2000; ++number) {
        const auto vocab = static_cast<std::uint32_t>(1 + generator() % 900);
        fill_case(random_case, vocab, generator);
        SentParts parts;
        parts.random = static_cast<std::uint32_t>(generator() % 8);
        parts.all = generator() % 5 == 0;
        LeanRow row(random_case.logits, random_case.shape, random_case.order_seed, parts);
        std::vector<std::uint64_t> some((row.blocks() + 63) / 64);
        for (std::uint64_t& word : some) word = generator() & generator();
        if (generator() % 2 == 0) row.grant(some);
        Workspace of_whole(vocab);
        const BlockedRow whole = lay_in_blocks(row.whole(), of_whole);
        const std::vector<float> maxima(of_whole.block_max.begin(), of_whole.block_max.end());
        Workspace workspace(vocab);
        check_blocks(row, whole, maxima, workspace);
    }
}

TEST_CASE("a view of which a slice is lean and another is not, or that lacks what it needs, is no record") {
    LmCase lm_case;
    std::mt19937_64 generator(1);
    fill_lm_row(lm_case, 300, proto::Dtype::bf16, generator);
    ask_plainly(lm_case);
    lm_case.shape.shards = {100, 200};
    LeanRow row(lm_case.logits, lm_case.shape, 1, best_blocks(2, false));
    Workspace workspace(300);
    std::vector<Slice> slices;
    const auto error_with = [&](auto spoil) {
        RowView view = row.view();
        slices.assign(view.slices.begin(), view.slices.end());
        LeanColumn column = *slices[1].lean;
        slices[1].lean = &column;
        view.slices = slices;
        spoil(view, slices[1], column);
        return decide_once(view, lm_case.request, workspace).error;
    };
    using proto::DecisionError;
    CHECK(error_with([](RowView&, Slice&, LeanColumn&) {}) == DecisionError::none);
    CHECK(error_with([](RowView&, Slice& slice, LeanColumn&) { slice.lean = nullptr; }) ==
          DecisionError::bad_record);
    CHECK(error_with([](RowView&, Slice&, LeanColumn& column) { column.maxima = nullptr; }) ==
          DecisionError::bad_record);
    CHECK(error_with([](RowView&, Slice&, LeanColumn& column) { column.blocks = nullptr; }) ==
          DecisionError::bad_record);
    CHECK(error_with([](RowView& view, Slice&, LeanColumn&) { view.tile = 32; }) ==
          DecisionError::bad_record);
}

TEST_CASE("where what the race opens was sent, it asks for nothing") {
    LmCase lm_case;
    plain_case(lm_case);
    Workspace workspace(kVocab);
    SentParts parts;
    const std::vector<float> ln_first = [&] {
        std::vector<float> made(kBlocks);
        make_first_arrivals(race_key(lm_case.params, lm_case.request), made);
        return made;
    }();
    std::vector<float> bounds(kBlocks);
    for (std::uint32_t b = 0; b < kBlocks; ++b) {
        const auto own = std::span(lm_case.logits).subspan(std::size_t{b} * kBlock, kBlock);
        bounds[b] = *std::max_element(own.begin(), own.end()) - ln_first[b];
    }
    for (int i = 0; i < 16; ++i) {
        const auto best = std::max_element(bounds.begin(), bounds.end());
        parts.named.push_back(static_cast<std::uint32_t>(best - bounds.begin()));
        *best = -1e9F;
    }
    CHECK(decided(lm_case, parts, workspace).tries == 1);
    parts.named.clear();
    const LeanDecision asked = decided(lm_case, parts, workspace);
    CHECK(asked.tries <= 3);
    CHECK(asked.asked <= 100);
}

TEST_CASE("a race that has to open every block asks for more each time") {
    LmCase lm_case;
    plain_case(lm_case);
    // Each block's bound is of a token that a penalty lowers far below the others.
    for (std::uint32_t token = 0; token < kVocab; ++token) {
        lm_case.logits[token] = token % kBlock == 0 ? 20.0F : 0.0F;
        if (token % kBlock == 0) lm_case.output.push_back(static_cast<std::int32_t>(token));
    }
    lm_case.params.repetition_penalty = 100.0;
    bind_request(lm_case);
    lm_case.request.max_length = kBlocks + 1;
    Workspace workspace(kVocab);
    const LeanDecision made = decided(lm_case, best_blocks(32, true), workspace);
    CHECK(made.asked > kBlocks / 2);
    CHECK(made.tries <= 10);
}

TEST_CASE("rows of equal logits are decided after few tries") {
    LmCase lm_case;
    plain_case(lm_case);
    std::fill(lm_case.logits.begin(), lm_case.logits.end(), 3.0F);
    Workspace workspace(kVocab);
    for (const auto rng : {proto::Rng::race, proto::Rng::shvs, proto::Rng::sglang, proto::Rng::vllm}) {
        for (const double temperature : {1.0, 1e-4, 100.0}) {
            lm_case.params.rng = rng;
            lm_case.params.temperature = temperature;
            CHECK(decided(lm_case, best_blocks(32, true), workspace).tries <= 10);
        }
    }
}

TEST_CASE("where the best blocks were sent, most requests ask for nothing") {
    LmCase lm_case;
    Workspace workspace(kVocab);
    const auto tries = [&](auto change) {
        plain_case(lm_case);
        change(lm_case.params);
        return decided(lm_case, best_blocks(32, true), workspace).tries;
    };
    CHECK(tries([](proto::SamplingParams& p) { p.temperature = 0.0; }) == 1);
    CHECK(tries([](proto::SamplingParams& p) { p.top_k = 20; }) == 1);
    CHECK(tries([](proto::SamplingParams& p) { p.min_p = 0.1; }) == 1);
    CHECK(tries([](proto::SamplingParams& p) { p.rng = proto::Rng::shvs; }) <= 2);
    // Whatever its race would open: no token of what is not there is kept.
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
        CHECK(tries([seed](proto::SamplingParams& p) {
                  p.seed = seed;
                  p.top_p = 0.5;
              }) == 1);
    }
}

TEST_CASE("sums that the writers give stand in for a walk over the row") {
    LmCase lm_case;
    plain_case(lm_case);
    lm_case.params.flags = 0;
    lm_case.params.top_k = 20;
    lm_case.shape.shards = {50000, 50001, 51935};
    Workspace workspace(kVocab);
    SentParts parts = best_blocks(32, true);
    parts.scale = 0.5;
    const auto asked_of = [&](auto spoil) {
        LeanRow row(lm_case.logits, lm_case.shape, 1, parts);
        spoil(row.column(1));
        const LeanDecision made = decide_lean(row, lm_case.request, workspace);
        REQUIRE(made.outcome.decision.error == proto::DecisionError::none);
        return made.asked;
    };
    CHECK(asked_of([](LeanColumn&) {}) < 100);
    // Where one rank's is none.
    for (const double bad :
         {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
        CHECK(asked_of([bad](LeanColumn& column) { column.weight = bad; }) > kBlocks / 2);
    }
    // What xtc asks is weighed at the request's temperature.
    lm_case.params = {};
    lm_case.params.flags = proto::kNoLogprob;
    lm_case.params.temperature = 0.7;
    lm_case.params.xtc_probability = 1.0;
    lm_case.params.xtc_threshold = 0.1;
    parts.scale = 1.0 / 0.7;
    CHECK(asked_of([](LeanColumn&) {}) < 100);
    CHECK(asked_of([](LeanColumn& column) { column.scale = 1.0; }) > kBlocks / 2);
    parts.scale = std::nextafter(parts.scale, 0.0);
    CHECK(asked_of([](LeanColumn&) {}) > kBlocks / 2);
    // A mask takes some of what was summed.
    parts.scale = 1.0 / 0.7;
    lm_case.mask.assign(kVocab / 32, 0xFFFFFFFEU);
    bind_request(lm_case);
    lm_case.request.max_length = 100;
    CHECK(asked_of([](LeanColumn&) {}) > kBlocks / 2);
}

TEST_CASE("what each block weighs answers what its largest entry leaves open") {
    LmCase lm_case;
    plain_case(lm_case);
    // Heaped up around 0 like a sum of many, and so flat that thousands of tokens share a nucleus.
    std::mt19937_64 generator(20261123);
    for (float& logit : lm_case.logits) {
        int sum = 0;
        for (int i = 0; i < 8; ++i) sum += static_cast<int>(generator() % 256) - 128;
        const auto sixteenths = sum / 8;
        logit = static_cast<float>(sixteenths) / 16.0F;
    }
    lm_case.params.top_p = 0.95;
    lm_case.params.temperature = 0.5;
    Workspace workspace(kVocab);
    SentParts parts = best_blocks(96, true);
    parts.scale = 1.0 / 0.5;
    std::uint32_t asked[2] = {};
    for (const bool weighs : {false, true}) {
        parts.block_weights = weighs;
        for (std::uint32_t seed = 0; seed < 60; ++seed) {
            lm_case.params.seed = seed;
            asked[weighs ? 1 : 0] += decided(lm_case, parts, workspace).asked;
        }
    }
    INFO("asked for " << asked[0] << " blocks without, " << asked[1] << " with");
    CHECK(asked[1] < asked[0] / 10 * 9);
    // At another scale they say nothing.
    parts.scale = 1.0;
    std::uint32_t at_another = 0;
    for (std::uint32_t seed = 0; seed < 60; ++seed) {
        lm_case.params.seed = seed;
        at_another += decided(lm_case, parts, workspace).asked;
    }
    CHECK(at_another > asked[1]);
}

TEST_CASE("a void decision leaves nothing in the sequence's state") {
    LmCase lm_case;
    plain_case(lm_case);
    lm_case.params.top_k = 20;
    lm_case.params.repetition_penalty = 1.3;
    lm_case.output.assign(lm_case.best.begin(), lm_case.best.begin() + 30);
    bind_request(lm_case);
    lm_case.request.max_length = 100;
    Workspace workspace(kVocab);
    SequenceState state(kVocab, 100);
    state.begin(lm_case.params, lm_case.breakers);
    LeanRow row(lm_case.logits, lm_case.shape, 1, {});
    decide(row.view(), lm_case.request, state, workspace);
    REQUIRE_FALSE(workspace.answer().missing.empty());
    CHECK(state.search_width() == 0);
    decide(row.whole(), lm_case.request, state, workspace);
    REQUIRE(workspace.answer().missing.empty());
    CHECK(state.search_width() > 0);
}

TEST_CASE("a decision over a part of a row allocates nothing") {
    std::mt19937_64 generator(20261208);
    Workspace workspace(5000);
    RandomCase random_case;
    for (int i = 0; i < 500; ++i) {
        fill_case(random_case, 5000, generator);
        LeanRow row(random_case.logits, random_case.shape, random_case.order_seed,
                    best_blocks(generator() % 2 == 0 ? 32 : 0, true));
        const RowView view = row.view();
        SequenceState state(5000, 100);
        state.begin(random_case.params, random_case.breakers);
        // What the state derives of the history grows with it.
        for (int tries = 0; tries < kMostTries; ++tries) {
            decide(view, random_case.request, state, workspace);
            const std::uint64_t before = allocations_so_far();
            decide(view, random_case.request, state, workspace);
            REQUIRE(allocations_so_far() == before);
            if (workspace.answer().missing.empty()) break;
            row.grant(workspace.answer().missing);
        }
    }
}

// Without it, the whole row is asked for.
TEST_CASE("top-n sigma, typical and a dynamic temperature are decided by the row's spread") {
    std::mt19937_64 generator(20261124);
    Workspace workspace(kVocab);
    LmCase of;
    for (const auto set :
         {+[](proto::SamplingParams& params) { params.top_n_sigma = 1.0; },
          +[](proto::SamplingParams& params) { params.top_n_sigma = 1.0, params.top_k = 30; },
          +[](proto::SamplingParams& params) { params.top_n_sigma = params.min_p = 0.5; },
          +[](proto::SamplingParams& params) { params.typical_p = 0.3; },
          +[](proto::SamplingParams& params) { params.dynatemp_range = 0.3; }}) {
        std::uint32_t asked = 0;
        std::uint32_t asked_without = 0;
        for (int row = 0; row < 12; ++row) {
            fill_lm_row(of, kVocab, static_cast<proto::Dtype>(row % 3), generator);
            ask_plainly(of);
            of.params.temperature = 0.6;
            of.params.seed = generator();
            set(of.params);
            SentParts parts = best_blocks(400, false);
            parts.scale = of.params.dynatemp_range > 0.0 ? 1.0 : 1.0 / of.params.temperature;
            const LeanDecision asking = decided(of, parts, workspace);
            parts.spread = true;
            const LeanDecision made = decided(of, parts, workspace);
            CHECK(made.outcome.decision.token == asking.outcome.decision.token);
            asked += made.asked;
            asked_without += asking.asked;
        }
        CHECK(asked_without >= 10 * (kBlocks - 400));
        CHECK(asked < asked_without / 3);
    }
}

// The same, and what they let through is among the best entries.
TEST_CASE("filters behind a top-n sigma or a dynamic temperature are decided by spread and best entries") {
    using proto::SamplingParams;
    std::mt19937_64 generator(20261127);
    Workspace workspace(kVocab);
    LmCase of;
    for (const auto set : {
             +[](SamplingParams& params) { params.dynatemp_range = 0.3, params.min_p = 0.1; },
             +[](SamplingParams& params) { params.dynatemp_range = 0.3, params.top_k = 30; },
             +[](SamplingParams& params) {
                 params.dynatemp_range = 0.3, params.min_p = 0.1, params.top_k = 30, params.top_p = 0.9;
             },
             +[](SamplingParams& params) { params.top_n_sigma = 0.8, params.typical_p = 0.5; },
             +[](SamplingParams& params) { params.top_n_sigma = 0.8, params.dynatemp_range = 0.3; },
             +[](SamplingParams& params) { params.top_n_sigma = 0.8, params.adaptive_target = 0.2; },
         }) {
        std::uint32_t asked = 0;
        for (int row = 0; row < 12; ++row) {
            fill_lm_row(of, kVocab, static_cast<proto::Dtype>(row % 3), generator);
            ask_plainly(of);
            of.params.temperature = 0.6;
            of.params.seed = generator();
            set(of.params);
            SentParts parts = best_blocks(4, false);
            parts.listed = 576;
            parts.spread = true;
            const bool is_dynamic = of.params.dynatemp_range > 0.0;
            parts.scale = is_dynamic ? 1.0 : 1.0 / of.params.temperature;
            const LeanDecision made = decided(of, parts, workspace);
            LeanRow row_of(of.logits, of.shape, 1, parts);
            CHECK(made.outcome.decision.token == decide_once(row_of.whole(), of.request, workspace).token);
            asked += made.asked;
        }
        CHECK(asked < kBlocks);
    }
}

// As a writer gives it that squares in float.
TEST_CASE("a spread with sums beyond what floats hold still tells what the others say") {
    std::mt19937_64 generator(20261125);
    Workspace workspace(kVocab);
    LmCase of;
    for (const bool typical : {true, false}) {
        fill_lm_row(of, kVocab, proto::Dtype::bf16, generator);
        ask_plainly(of);
        of.params.temperature = 0.6;
        if (typical) of.params.typical_p = 0.3;
        if (!typical) of.params.dynatemp_range = 0.3;
        SentParts parts = best_blocks(400, false);
        parts.spread = true;
        parts.scale = typical ? 1.0 / of.params.temperature : 1.0;
        const LeanDecision without = decided(of, parts, workspace);
        of.logits[kVocab / 2] = quantised(-1e30F, proto::Dtype::bf16);
        LeanRow row(of.logits, of.shape, 1, parts);
        for (std::size_t rank = 0; rank < row.view().slices.size(); ++rank)
            row.column(rank).spread->squares = std::numeric_limits<double>::infinity();
        const LeanDecision with = decide_lean(row, of.request, workspace);
        CHECK(with.outcome.decision.token == without.outcome.decision.token);
        CHECK(with.asked <= without.asked + 1);
    }
}

TEST_CASE("a spread that is no number, or is of another scale, tells nothing") {
    Workspace workspace(kVocab);
    LmCase of;
    plain_case(of);
    of.params.typical_p = 0.9;
    SentParts parts = best_blocks(64, false);
    const std::int32_t token = decided(of, parts, workspace).outcome.decision.token;
    parts.spread = true;
    for (const double wrong : {std::numeric_limits<double>::quiet_NaN(), -1.0, 0.0, kVocab + 1.0,
                               std::numeric_limits<double>::infinity()}) {
        LeanRow row(of.logits, of.shape, 1, parts);
        row.column(0).spread->tokens = wrong;
        CHECK(decide_lean(row, of.request, workspace).outcome.decision.token == token);
        LeanRow other(of.logits, of.shape, 1, parts);
        other.column(0).scale = 0.5;
        CHECK(decide_lean(other, of.request, workspace).outcome.decision.token == token);
        LeanRow sums(of.logits, of.shape, 1, parts);
        sums.column(0).spread->moments = std::numeric_limits<double>::quiet_NaN();
        CHECK(decide_lean(sums, of.request, workspace).outcome.decision.token == token);
    }
}

}  // namespace croupier::sampler::test
