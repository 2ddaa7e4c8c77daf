#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "case_generator.h"
#include "sampler/blocked_row.h"
#include "testing/agreement.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

reference::Outcome outcome_with(bool summaries, RandomCase& random_case, Workspace& workspace) {
    random_case.shape.summarised = summaries;
    const RowFixture row(random_case.logits, random_case.shape, random_case.order_seed);
    const proto::Decision decision = decide_once(row.view(), random_case.request, workspace);
    return outcome_of(decision, workspace.answer());
}

// Whether there was a token.
bool decides_alike(RandomCase& random_case, Workspace& workspace) {
    const reference::Outcome without = outcome_with(false, random_case, workspace);
    const reference::Outcome with = outcome_with(true, random_case, workspace);
    const std::string fault = difference(with, without, Logprobs::within_error);
    if (!fault.empty()) FAIL(fault << "; tile " << random_case.shape.tile << ", " << describe(random_case));
    return with.decision.error == proto::DecisionError::none;
}

}  // namespace

TEST_CASE("decisions with the writer's summaries equal those without") {
    std::mt19937_64 generator(20261122);
    std::vector<std::unique_ptr<Workspace>> workspaces;
    constexpr std::uint32_t kMostVocab = 700;
    constexpr int kCases = 20000;
    for (std::uint32_t vocab = 1; vocab <= kMostVocab; ++vocab) {
        workspaces.push_back(std::make_unique<Workspace>(vocab));
    }
    RandomCase random_case;
    int decided = 0;
    for (int number = 0; number < kCases; ++number) {
        const auto vocab = static_cast<std::uint32_t>(1 + generator() % kMostVocab);
        fill_case(random_case, vocab, generator);
        if (number % 4 != 0) random_case.shape.tile = kBlock;
        decided += decides_alike(random_case, *workspaces[vocab - 1]) ? 1 : 0;
    }
    CHECK(decided > kCases / 2);
}

TEST_CASE("summaries change no decision over a real vocabulary") {
    constexpr std::uint32_t kVocab = 151936;
    std::mt19937_64 generator(20261123);
    Workspace workspace(kVocab);
    RandomCase random_case;
    constexpr int kCases = 20;
    int decided = 0;
    for (int number = 0; number < kCases; ++number) {
        fill_case(random_case, kVocab, generator);
        random_case.shape.tile = kBlock;
        decided += decides_alike(random_case, workspace) ? 1 : 0;
    }
    CHECK(decided > kCases / 2);
}

TEST_CASE("summaries are used where each is of a block, and nowhere else") {
    const std::vector<float> logits(300, 1.0F);
    Workspace workspace(300);
    RowShape shape = {proto::Dtype::bf16, kBlock, 3, 1, {100, 0, 200}, true, true};
    const auto used = [&] {
        const RowFixture row(logits, shape);
        return lay_in_blocks(row.view(), workspace).summarised;
    };
    CHECK(used());
    shape.tile = 2 * kBlock;
    CHECK_FALSE(used());
    shape.tile = 1;
    CHECK_FALSE(used());
    shape.tile = kBlock;
    shape.summarised = false;
    CHECK_FALSE(used());
}

}  // namespace croupier::sampler::test
