#include <hwy/detect_targets.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "case_generator.h"
#include "instruction_sets.h"
#include "testing/agreement.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

// SSE4 and older round each product of a log-prob's total by itself (docs/decisions/0005).
Logprobs judged_on(std::int64_t target) {
    const bool fuses =
        target == HWY_AVX2 || target == HWY_AVX3 || target == HWY_AVX3_DL || target == HWY_NEON;
    return fuses ? Logprobs::bit_for_bit : Logprobs::within_error;
}

// Whether there was a token.
bool decides_alike_on_all(const RandomCase& random_case, Workspace& workspace) {
    const RowFixture row(random_case.logits, random_case.shape, random_case.order_seed);
    std::optional<reference::Outcome> first;
    for (const std::int64_t target : instruction_sets()) {
        const InstructionSet used(target);
        const proto::Decision decision = decide_once(row.view(), random_case.request, workspace);
        const reference::Outcome outcome = outcome_of(decision, workspace.answer());
        if (!first) first = outcome;
        const std::string fault = difference(outcome, *first, judged_on(target));
        if (!fault.empty()) {
            FAIL(name_of_instruction_set(target)
                 << ": " << fault << "; path " << name_of(workspace.answer().path) << "; "
                 << describe(random_case));
        }
    }
    return first->decision.error == proto::DecisionError::none;
}

void warn_of_one_instruction_set() {
    if (instruction_sets().size() == 1) WARN("one instruction set only: nothing was compared");
}

}  // namespace

TEST_CASE(
    "every mixture of controls decides the same on every instruction set, log-probs bit for bit where it "
    "fuses") {
    warn_of_one_instruction_set();
    std::mt19937_64 generator(20261124);
    std::vector<std::unique_ptr<Workspace>> workspaces;
    for (std::uint32_t vocab = 1; vocab <= 700; ++vocab) {
        workspaces.push_back(std::make_unique<Workspace>(vocab));
    }
    RandomCase random_case;
    constexpr int kCases = 10000;
    int decided = 0;
    for (int number = 0; number < kCases; ++number) {
        const auto vocab = static_cast<std::uint32_t>(1 + generator() % (generator() % 2 == 0 ? 700 : 100));
        fill_case(random_case, vocab, generator);
        decided += decides_alike_on_all(random_case, *workspaces[vocab - 1]) ? 1 : 0;
    }
    CHECK(decided > kCases / 2);
}

TEST_CASE("rows of a real vocabulary's size decide the same on every instruction set") {
    warn_of_one_instruction_set();
    constexpr std::uint32_t kVocab = 151936;
    std::mt19937_64 generator(20261125);
    Workspace workspace(kVocab);
    RandomCase random_case;
    constexpr int kCases = 40;
    int decided = 0;
    for (int number = 0; number < kCases; ++number) {
        fill_case(random_case, kVocab, generator);
        decided += decides_alike_on_all(random_case, workspace) ? 1 : 0;
    }
    CHECK(decided > kCases / 2);
}

}  // namespace croupier::sampler::test
