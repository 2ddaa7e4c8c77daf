// Columns with a mask: what it hides may stand at any height. Their writers know of it, or all of the row is
// there.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>

#include "lean_fixture.h"
#include "lm_cases.h"
#include "sampler/plan.h"
#include "sampler/row_mass.h"
#include "testing/agreement.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

// A row whose one hidden token stands so far above two that are allowed, in one block with them.
void hide_above(LmCase& of, std::uint32_t vocab, float gap) {
    std::fill(of.logits.begin(), of.logits.end(), -50.0F);
    of.logits[0] = 0.0F;
    of.logits[1] = -0.03125F;
    of.logits[2] = quantised(gap, of.shape.dtype);
    of.mask.assign((vocab + 31) / 32, 0xFFFFFFFFU);
    of.mask[0] &= ~4U;
}

void clear_request(LmCase& of) {
    of.params = {};
    of.params.flags = proto::kNoLogprob;
    for (auto* list : {&of.prompt, &of.output, &of.allowed_ids, &of.bad_words, &of.breakers}) list->clear();
    of.bias.clear();
    of.hot_blocks.clear();
}

SentParts all_of_it() {
    SentParts parts;
    parts.all = true;
    return parts;
}

// What a writer sends that knows of the mask, with sums that are nearly as wrong as they may be.
SentParts known_mask(const LmCase& of, std::mt19937_64& generator) {
    SentParts parts;
    parts.mask = of.request.mask;
    parts.best = std::array{1U, 4U, 32U}[generator() % 3];
    parts.listed = std::array{0U, 5U, 100U}[generator() % 3];
    parts.sums = true;
    const auto vocab = static_cast<std::uint32_t>(of.logits.size());
    parts.scale = plan_of(of.params, of.request, vocab).cut.scale;
    parts.block_weights = generator() % 2 == 0;
    parts.spread = generator() % 2 == 0;
    parts.error = std::array{0.0, 0.7, -0.7}[generator() % 3] * kSentWeightError;
    return parts;
}

LeanDecision check_as_whole(LmCase& of, const SentParts& parts, Workspace& workspace) {
    LeanRow row(of.logits, of.shape, 1, parts);
    const proto::Decision whole = decide_once(row.whole(), of.request, workspace);
    const reference::Outcome expected = outcome_of(whole, workspace.answer());
    LeanDecision lean = decide_lean(row, of.request, workspace);
    const std::string fault = difference(lean.outcome, expected, Logprobs::within_error);
    if (!fault.empty()) FAIL(fault << "; " << describe(of));
    return lean;
}

}  // namespace

TEST_CASE("what a mask hides does not keep a winner that the nucleus leaves out, however high it stands") {
    constexpr std::uint32_t kVocab = 640;
    Workspace workspace(kVocab);
    std::mt19937_64 generator(1);
    LmCase of;
    for (const double temperature : {0.01, 0.05, 0.1, 0.2, 0.5, 1.0}) {
        for (const float gap : {1.0F, 8.0F, 10.0F, 18.0F, 22.0F, 26.0F, 45.0F, 60.0F, 120.0F, 240.0F}) {
            fill_lm_row(of, kVocab, proto::Dtype::bf16, generator);
            clear_request(of);
            hide_above(of, kVocab, gap);
            bind_request(of);
            of.request.max_length = 100;
            of.params.temperature = temperature;
            of.params.top_p = 0.5;
            for (of.params.seed = 0; of.params.seed < 40; ++of.params.seed) {
                check_as_whole(of, all_of_it(), workspace);
                check_as_whole(of, known_mask(of, generator), workspace);
            }
        }
    }
}

TEST_CASE("requests under masks that hide what stands highest are decided as over whole rows") {
    constexpr std::uint32_t kVocab = 3000;
    Workspace workspace(kVocab);
    std::mt19937_64 generator(2);
    LmCase of;
    for (int number = 0; number < 1500; ++number) {
        const auto dtype = static_cast<proto::Dtype>(number % 3);
        fill_lm_row(of, kVocab, dtype, generator);
        fill_lm_request(of, generator);
        of.params.temperature = std::array{0.01, 0.05, 0.2, 0.7}[generator() % 4];
        of.allowed_ids.clear();
        of.mask.assign((kVocab + 31) / 32, 0xFFFFFFFFU);
        for (int hidden = 0; hidden < 40; ++hidden) {
            const auto id = static_cast<std::uint32_t>(generator() % kVocab);
            const auto above =
                static_cast<float>(generator() % 400) * static_cast<float>(of.params.temperature);
            of.logits[id] = quantised(20.0F + above, dtype);
            of.mask[id / 32] &= ~(1U << (id % 32));
        }
        bind_request(of);
        of.request.max_length = 100;
        check_as_whole(of, all_of_it(), workspace);
        if (!of.request.mask.empty()) check_as_whole(of, known_mask(of, generator), workspace);
    }
}

TEST_CASE("of a row whose writer knew of the mask, blocks are asked for as of one without") {
    constexpr std::uint32_t kVocab = 40000;
    Workspace workspace(kVocab);
    std::mt19937_64 generator(3);
    LmCase of;
    long asked = 0;
    constexpr int kCases = 400;
    for (int number = 0; number < kCases; ++number) {
        fill_lm_row(of, kVocab, proto::Dtype::bf16, generator);
        clear_request(of);
        of.params.temperature = 0.8;
        of.params.seed = generator();
        if (number % 4 == 1) of.params.top_p = 0.95;
        if (number % 4 == 2) of.params.top_k = 20;
        if (number % 4 == 3) of.params.temperature = 0.0;
        // Of eight masks one allows nearly all, and one some ten tokens.
        of.mask.assign((kVocab + 31) / 32, 0xFFFFFFFFU);
        for (std::uint32_t& word : of.mask) {
            for (int less = 0; less < number / 4 % 8 * 2 - 2; ++less)
                word &= static_cast<std::uint32_t>(generator());
        }
        of.mask[7] |= 1U;
        bind_request(of);
        of.request.max_length = 100;
        SentParts parts = known_mask(of, generator);
        parts.best = 96;
        asked += check_as_whole(of, parts, workspace).asked;
    }
    // Whole rows are 625 blocks each.
    INFO(asked << " blocks of " << kCases << " rows");
    CHECK(asked < 10L * kCases);
}

TEST_CASE("ranks that a mask leaves nothing of keep nobody's draw from being taken") {
    constexpr std::uint32_t kVocab = 4096;
    Workspace workspace(kVocab);
    std::mt19937_64 generator(5);
    LmCase of;
    for (int number = 0; number < 200; ++number) {
        fill_lm_row(of, kVocab, proto::Dtype::bf16, generator);
        clear_request(of);
        of.shape = lm_shape(kVocab, 1 + static_cast<std::uint32_t>(number % 4), kBlock, proto::Dtype::bf16,
                            generator);
        of.params.temperature = number % 3 == 0 ? 0.0 : 0.8;
        of.params.seed = generator();
        // A few tokens of one place, as a grammar has them; of one row in ten, none at all.
        of.mask.assign((kVocab + 31) / 32, 0U);
        of.mask[generator() % of.mask.size()] = number % 10 == 9 ? 0U : 0x8400U;
        bind_request(of);
        of.request.max_length = 100;
        SentParts parts;
        parts.mask = of.request.mask;
        parts.drawn_by = drawn_by(of.request);
        CHECK(check_as_whole(of, parts, workspace).tries == 1);
    }
}

TEST_CASE("what was told under a mask says nothing to a request without one, or that sees all of its row") {
    constexpr std::uint32_t kVocab = 640;
    Workspace workspace(kVocab);
    std::mt19937_64 generator(4);
    LmCase of;
    fill_lm_row(of, kVocab, proto::Dtype::bf16, generator);
    clear_request(of);
    of.mask.assign((kVocab + 31) / 32, 0x0F0F0F0FU);
    for (of.params.seed = 0; of.params.seed < 60; ++of.params.seed) {
        of.params.temperature = of.params.seed % 3 == 0 ? 0.0 : 1.0;
        of.params.top_p = of.params.seed % 2 == 0 ? 0.9 : 1.0;
        of.params.flags = of.params.seed % 5 == 0 ? 0 : proto::kNoLogprob;
        of.params.rng = proto::Rng::race;
        bind_request(of);
        of.request.max_length = 100;
        const SentParts told = known_mask(of, generator);
        const auto mask = of.request.mask;
        of.request.mask = {};
        check_as_whole(of, told, workspace);
        of.request.mask = mask;
        const std::array<std::int32_t, 3> ids{1, 5, 40};
        of.request.allowed_ids = ids;
        check_as_whole(of, told, workspace);
        of.request.allowed_ids = {};
        of.params.rng = proto::Rng::shvs;
        check_as_whole(of, told, workspace);
    }
}

}  // namespace croupier::sampler::test
