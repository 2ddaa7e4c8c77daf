// A decision over a row that is there in part is that over the whole row, once it has what it asks for.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "case_generator.h"
#include "lean_fixture.h"
#include "lm_cases.h"
#include "more_cases.h"
#include "sampler/plan.h"
#include "sampler/row_mass.h"
#include "strange_rows.h"
#include "testing/agreement.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

template <typename T, std::size_t N>
T one_of(const std::array<T, N>& choices, std::mt19937_64& generator) {
    return choices[generator() % N];
}

double scale_of(const RandomCase& of) {
    const auto vocab = static_cast<std::uint32_t>(of.logits.size());
    return plan_of(of.params, of.request, vocab).cut.scale;
}

// Nothing, a few blocks or all; sums as exact as doubles, or nearly as wrong as they may be. Of a case with
// log-probs less: they are to agree with those of the fast path's own sum, which is off by 3e-6 itself.
SentParts random_parts(const RandomCase& of, std::mt19937_64& generator) {
    SentParts parts;
    const auto kind = generator() % 8;
    if (kind >= 2 && kind < 5) parts.best = one_of(std::array{1U, 4U, 32U}, generator);
    if (kind == 4 || kind == 5) parts.random = static_cast<std::uint32_t>(generator() % 6);
    parts.all = kind == 6;
    if (generator() % 2 == 0) parts.ids = named_ids(of.request);
    // As a writer sends them that has read another request's.
    if (generator() % 8 == 0) parts.ids.assign(3, 0);
    if (generator() % 3 == 0) parts.listed = one_of(std::array{1U, 20U, 300U}, generator);
    parts.sums = generator() % 2 == 0;
    parts.scale = generator() % 4 == 0 ? 0.75 : scale_of(of);
    parts.spread = generator() % 2 == 0;
    parts.block_weights = generator() % 2 == 0;
    // Whatever it asks for: it is the decision that knows what may be drawn so.
    if (generator() % 2 == 0) parts.drawn_by = drawn_by(of.request);
    parts.racers = one_of(std::array{0U, 1U, 3U, proto::kMostRacers}, generator);
    parts.summed_before = static_cast<std::uint32_t>(generator() % 5);
    const double most = (of.params.flags & proto::kNoLogprob) != 0 ? 0.99 : 0.7;
    parts.error = one_of(std::array{0.0, most, -most}, generator) * kSentWeightError;
    if (!of.request.mask.empty() && generator() % 4 != 0) {
        parts.mask = of.request.mask;
        parts.masks_every_second = generator() % 4 == 0;
    }
    return parts;
}

// What many decisions took together.
struct Tally {
    int decided = 0;
    int most_tries = 0;
    long tries = 0;
    long cases = 0;
};

// Compares with the whole row's decision, and again when nothing else was granted than what was asked for.
void check_case(RandomCase& random_case, const SentParts& parts, Workspace& workspace, Tally& tally) {
    LeanRow row(random_case.logits, random_case.shape, random_case.order_seed, parts);
    const proto::Decision decision = decide_once(row.whole(), random_case.request, workspace);
    const reference::Outcome whole = outcome_of(decision, workspace.answer());
    REQUIRE(workspace.answer().missing.empty());
    INFO(describe(random_case) << "; best " << parts.best << ", random " << parts.random << ", all "
                               << parts.all << ", sums " << parts.sums << ", listed " << parts.listed
                               << ", ids " << parts.ids.size() << ", racers " << parts.racers);
    const LeanDecision lean = decide_lean(row, random_case.request, workspace);
    const std::string fault = difference(lean.outcome, whole, Logprobs::within_error);
    if (!fault.empty()) FAIL(fault);
    tally.decided += decision.error == proto::DecisionError::none ? 1 : 0;
    tally.most_tries = std::max(tally.most_tries, lean.tries);
    tally.tries += lean.tries;
    ++tally.cases;
}

// Of every test, so many times as many cases as usual.
int times() {
    return static_cast<int>(cases_to_compare("CROUPIER_LEAN_TIMES", 1));
}

void check_random_cases(std::uint32_t least_vocab, std::uint32_t most_vocab, int cases, std::uint64_t seed) {
    std::mt19937_64 generator = seeded(seed);
    RandomCase random_case;
    Tally tally;
    constexpr int kCasesOfOne = 20;  // a workspace costs more than a decision
    for (int number = 0; number < cases; number += kCasesOfOne) {
        const auto vocab =
            least_vocab + static_cast<std::uint32_t>(generator() % (most_vocab - least_vocab + 1));
        Workspace workspace(vocab);
        for (int i = 0; i < kCasesOfOne; ++i) {
            fill_case(random_case, vocab, generator);
            check_case(random_case, random_parts(random_case, generator), workspace, tally);
        }
    }
    CHECK(tally.decided > cases / 2);
    INFO("tries: " << tally.tries << " of " << tally.cases << ", at most " << tally.most_tries);
    CHECK(tally.tries < 3 * tally.cases);
}

}  // namespace

TEST_CASE("a decision over a part of a row is that over the whole row") {
    check_random_cases(1, 700, 20000 * times(), 20261201);
}

TEST_CASE("a decision over a part of a row of many blocks is that over the whole row") {
    check_random_cases(700, 20000, 3000 * times(), 20261202);
}

TEST_CASE("requests as people send them are decided alike over a part of a row") {
    std::mt19937_64 generator = seeded(20261203);
    LmCase lm_case;
    Tally tally;
    const int rows = 3000 * times();
    for (int number = 0; number < rows; ++number) {
        const auto vocab = static_cast<std::uint32_t>(5000 + generator() % 3000);
        const auto dtype = static_cast<proto::Dtype>(generator() % 3);
        Workspace workspace(vocab);
        fill_lm_row(lm_case, vocab, dtype, generator);
        lm_case.shape =
            lm_shape(vocab, 1 + static_cast<std::uint32_t>(generator() % 4), kBlock, dtype, generator);
        lm_case.order_seed = generator();
        for (int i = 0; i < 2; ++i) {
            fill_lm_request(lm_case, generator);
            check_case(lm_case, random_parts(lm_case, generator), workspace, tally);
        }
    }
    CHECK(tally.decided > rows);
    CHECK(tally.tries < 3 * tally.cases);
}

TEST_CASE("a part of a real vocabulary's row decides as the whole row") {
    constexpr std::uint32_t kVocab = 151936;
    std::mt19937_64 generator = seeded(20261204);
    Workspace workspace(kVocab);
    RandomCase random_case;
    Tally tally;
    for (int number = 0; number < 40 * times(); ++number) {
        fill_case(random_case, kVocab, generator);
        check_case(random_case, random_parts(random_case, generator), workspace, tally);
    }
    CHECK(tally.decided > 20);
}

TEST_CASE("strange rows of which a part is there are decided alike, after few tries") {
    std::mt19937_64 generator = seeded(20261205);
    RandomCase random_case;
    Tally tally;
    for (const std::uint32_t vocab : {64U, 65U, 1000U, 40000U}) {
        Workspace workspace(vocab);
        const int requests = (vocab == 40000U ? 20 : 60) * times();
        for (std::uint32_t kind = 0; kind < kStrangeRows * static_cast<std::uint32_t>(requests); ++kind) {
            fill_case(random_case, vocab, generator);
            random_case.logits = strange_row(kind % kStrangeRows, vocab, random_case.shape.dtype, generator);
            check_case(random_case, random_parts(random_case, generator), workspace, tally);
        }
    }
    CHECK(tally.cases == std::int64_t{200} * kStrangeRows * times());
}

}  // namespace croupier::sampler::test
