// Changed tokens that a part of a row lacks: what they weigh is bounded, and read where the bound is not
// enough. Rows in which a wrong bound would draw another token.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "case_generator.h"
#include "lean_fixture.h"
#include "lm_cases.h"
#include "sampler/row_mass.h"
#include "testing/agreement.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

constexpr std::uint32_t kVocab = 6400;
constexpr std::uint32_t kBlocks = kVocab / kBlock;

// What tells a right bound from a wrong one: how the history is changed, and where it stands.
struct Change {
    const char* name;
    double repetition;
    double frequency;
    double presence;
    float bias;  // of some tokens of the history; 0: none
    bool bans;   // some of them
};

constexpr std::array kChanges = {
    Change{"repetition", 1.3, 0.0, 0.0, 0.0F, false},
    Change{"makes tiny", 1.0, 50.0, 0.0, 0.0F, false},
    Change{"presence", 1.0, 0.0, 0.7, 0.0F, false},
    Change{"bans", 1.0, 0.0, 0.0, 0.0F, true},
    Change{"negative bias", 1.0, 0.0, 0.0, -3.0F, false},
    Change{"bans and penalties", 1.1, 0.2, 0.1, -0.5F, true},
    Change{"rewards repetition", 0.8, 0.0, 0.0, 0.0F, false},
    Change{"rewards presence", 1.0, 0.0, -2.0, 0.0F, false},
    Change{"positive bias", 1.2, 0.0, 0.0, 4.0F, false},
};

// A head that is spread over many blocks, its values close together: whatever is not sent weighs much.
void fill_row(LmCase& out, std::mt19937_64& generator) {
    constexpr std::array kDtypes = {proto::Dtype::bf16, proto::Dtype::fp16, proto::Dtype::fp32};
    out.logits.assign(kVocab, 0.0F);
    for (float& logit : out.logits) logit = -6.0F + static_cast<float>(generator() % 64) * 0x1p-4F;
    const auto heads = 20 + generator() % 60;
    for (std::uint64_t i = 0; i < heads; ++i)
        out.logits[generator() % kVocab] = 2.0F + static_cast<float>(generator() % 32) * 0x1p-4F;
    out.shape = lm_shape(kVocab, 1 + static_cast<std::uint32_t>(generator() % 3), kBlock,
                         kDtypes[generator() % kDtypes.size()], generator);
    out.order_seed = generator();
}

// Of the best tokens, and of others of any blocks, each up to three times.
void fill_history(LmCase& out, std::mt19937_64& generator) {
    out.best.clear();
    for (std::uint32_t token = 0; token < kVocab; ++token) {
        if (out.logits[token] >= 2.0F) out.best.push_back(static_cast<std::int32_t>(token));
    }
    out.output.clear();
    for (const std::int32_t token : out.best) {
        for (std::uint64_t times = generator() % 4; times > 0; --times) out.output.push_back(token);
    }
    for (int i = 0; i < 20; ++i) out.output.push_back(static_cast<std::int32_t>(generator() % kVocab));
}

void ask(LmCase& out, const Change& change, std::mt19937_64& generator) {
    constexpr std::array kShares = {0.3, 0.5, 0.8, 0.9, 0.95, 0.99};
    out.params = {};
    out.params.flags = proto::kNoLogprob;
    out.params.seed = generator();
    out.params.temperature = generator() % 2 == 0 ? 1.0 : 0.7;
    out.params.repetition_penalty = change.repetition;
    out.params.frequency_penalty = change.frequency;
    out.params.presence_penalty = change.presence;
    if (generator() % 4 == 0) {
        out.params.xtc_probability = 1.0;
        out.params.xtc_threshold = 0.01 + 0.01 * static_cast<double>(generator() % 5);
    } else {
        out.params.top_p = kShares[generator() % kShares.size()];
    }
    for (auto* list : {&out.prompt, &out.allowed_ids, &out.bad_words, &out.breakers}) list->clear();
    out.bias.clear();
    for (const std::int32_t token : out.output) {
        if (change.bias != 0.0F && generator() % 3 == 0) out.bias.push_back({token, change.bias});
        if (change.bans && generator() % 3 == 0) out.bad_words.insert(out.bad_words.end(), {1, token});
    }
    bind_request(out);
    out.request.max_length = static_cast<std::uint32_t>(out.output.size()) + 10;
    out.request.random = static_cast<std::uint32_t>(generator());
}

SentParts parts_of(const LmCase& of, std::uint32_t best, double error) {
    SentParts parts;
    parts.best = best;
    parts.sums = true;
    parts.scale = 1.0 / of.params.temperature;
    parts.error = error;
    if (best % 2 == 0) parts.ids = named_ids(of.request);
    return parts;
}

struct Tally {
    int cases = 0;
    int first_tries = 0;
};

void check(const LmCase& of, const Change& change, const SentParts& parts, Workspace& workspace,
           Tally& tally) {
    LeanRow row(of.logits, of.shape, of.order_seed, parts);
    const proto::Decision decision = decide_once(row.whole(), of.request, workspace);
    const reference::Outcome whole = outcome_of(decision, workspace.answer());
    const LeanDecision lean = decide_lean(row, of.request, workspace);
    INFO(change.name << ": " << describe(of) << "; best " << parts.best);
    const std::string fault = difference(lean.outcome, whole, Logprobs::within_error);
    if (!fault.empty()) FAIL(fault);
    ++tally.cases;
    tally.first_tries += lean.tries == 1 ? 1 : 0;
}

}  // namespace

TEST_CASE("whatever changes tokens that a part of a row lacks, the token is the whole row's") {
    std::mt19937_64 generator(20261210);
    LmCase lm_case;
    Workspace workspace(kVocab);
    Tally tally;
    for (int rows = 0; rows < 300; ++rows) {
        fill_row(lm_case, generator);
        fill_history(lm_case, generator);
        for (const Change& change : kChanges) {
            ask(lm_case, change, generator);
            const double error = (generator() % 2 == 0 ? 0.9 : -0.9) * kSentWeightError;
            const auto best = static_cast<std::uint32_t>(generator() % kBlocks);
            check(lm_case, change, parts_of(lm_case, best, error), workspace, tally);
        }
    }
    CHECK(tally.first_tries > tally.cases / 10);
    CHECK(tally.first_tries < tally.cases * 9 / 10);
}

TEST_CASE("a history that was not sent is asked for where it can matter, and only there") {
    constexpr std::uint32_t kLargeVocab = 151936;
    std::mt19937_64 generator(20261206);
    LmCase lm_case;
    fill_lm_row(lm_case, kLargeVocab, proto::Dtype::bf16, generator);
    lm_case.shape = lm_shape(kLargeVocab, 2, kBlock, proto::Dtype::bf16, generator);
    for (int i = 0; i < 300; ++i)
        lm_case.output.push_back(static_cast<std::int32_t>(generator() % kLargeVocab));
    Workspace workspace(kLargeVocab);
    const auto most_asked = [&](double repetition, double top_p) {
        std::uint32_t most = 0;
        for (std::uint64_t seed = 0; seed < 20; ++seed) {
            lm_case.params = {};
            lm_case.params.flags = proto::kNoLogprob;
            lm_case.params.seed = seed;
            lm_case.params.repetition_penalty = repetition;
            lm_case.params.top_p = top_p;
            bind_request(lm_case);
            lm_case.request.max_length = 400;
            LeanRow row(lm_case.logits, lm_case.shape, 1, parts_of(lm_case, 32, 0.0));
            most = std::max(most, decide_lean(row, lm_case.request, workspace).asked);
        }
        return most;
    };
    CHECK(most_asked(1.1, 0.5) == 0);
    CHECK(most_asked(0.9, 0.5) > 200);
}

TEST_CASE("a long history that penalties raise is asked for only where it may pass") {
    constexpr std::uint32_t kLargeVocab = 151936;
    std::mt19937_64 generator(20261127);
    LmCase lm_case;
    Workspace workspace(kLargeVocab);
    // A few tokens stand there often, and most of all ids once or not at all.
    for (int i = 0; i < 30000; ++i) {
        const std::uint64_t ids = i % 3 == 0 ? 40 : i % 3 == 1 ? 3000 : kLargeVocab;
        lm_case.output.push_back(static_cast<std::int32_t>(generator() % ids * 7919 % kLargeVocab));
    }
    const auto check_asked = [&](auto set, std::uint32_t most) {
        std::uint32_t asked = 0;
        for (std::uint64_t seed = 0; seed < 6; ++seed) {
            fill_lm_row(lm_case, kLargeVocab, static_cast<proto::Dtype>(seed % 3), generator);
            lm_case.params = {};
            lm_case.params.flags = proto::kNoLogprob;
            lm_case.params.seed = seed;
            set(lm_case.params);
            bind_request(lm_case);
            lm_case.request.max_length = 40000;
            SentParts parts = parts_of(lm_case, 32, 0.0);
            if (seed % 2 == 0) parts.listed = 300;
            LeanRow row(lm_case.logits, lm_case.shape, 1, parts);
            const proto::Decision whole = decide_once(row.whole(), lm_case.request, workspace);
            const LeanDecision lean = decide_lean(row, lm_case.request, workspace);
            CHECK(lean.outcome.decision.token == whole.token);
            asked = std::max(asked, lean.asked);
        }
        CHECK(asked < most);
    };
    using proto::SamplingParams;
    check_asked([](SamplingParams& params) { params.frequency_penalty = -2.0, params.min_p = 0.1; }, 200);
    check_asked([](SamplingParams& params) { params.frequency_penalty = -2.0, params.top_k = 20; }, 300);
    check_asked([](SamplingParams& params) { params.frequency_penalty = -2.0; }, 400);
    check_asked([](SamplingParams& params) { params.presence_penalty = -1.0, params.temperature = 0.0; },
                300);
    check_asked([](SamplingParams& params) { params.repetition_penalty = 0.9, params.min_p = 0.1; }, 600);
}

}  // namespace croupier::sampler::test
