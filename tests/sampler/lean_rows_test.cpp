// A decision over a row that is there in part is that over the whole row, once it has what it asks for.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "case_generator.h"
#include "lean_fixture.h"
#include "lean_parts.h"
#include "lm_cases.h"
#include "more_cases.h"
#include "strange_rows.h"
#include "testing/agreement.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

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
