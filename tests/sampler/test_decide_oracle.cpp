#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "agreement.h"
#include "case_generator.h"
#include "deciding.h"
#include "sampler/reference/decide.h"

namespace croupier::sampler::test {
namespace {

proto::DecisionError check_against_reference(const RandomCase& random_case, Workspace& workspace,
                                             std::uint64_t number) {
    const RowFixture row(random_case.logits, random_case.shape, random_case.order_seed);
    const proto::Decision ours = decide_once(row.view(), random_case.request, workspace);
    const reference::Outcome expected = reference::decide(row.view(), random_case.request);
    const Answer& answer = workspace.answer();
    const std::string fault = difference(outcome_of(ours, answer), expected, Logprobs::within_error);
    if (!fault.empty()) {
        FAIL("case " << number << ": " << fault << "; path " << name_of(answer.path) << "; "
                     << describe(random_case));
    }
    return expected.decision.error;
}

// How many cases a run compares; the environment may ask for more than every run can afford.
std::uint64_t cases_to_compare() {
    const char* asked = std::getenv("CROUPIER_ORACLE_CASES");
    return asked != nullptr ? std::strtoull(asked, nullptr, 10) : 60000;
}

}  // namespace

TEST_CASE("every mixture of controls decides as the reference does") {
    const char* seed = std::getenv("CROUPIER_ORACLE_SEED");
    std::mt19937_64 generator(seed != nullptr ? std::strtoull(seed, nullptr, 10) : 20261121);
    std::vector<std::unique_ptr<Workspace>> workspaces;
    for (std::uint32_t vocab = 1; vocab <= 700; ++vocab)
        workspaces.push_back(std::make_unique<Workspace>(vocab));
    RandomCase random_case;
    std::uint64_t with_token = 0;
    const std::uint64_t cases = cases_to_compare();
    for (std::uint64_t number = 0; number < cases; ++number) {
        const auto vocab = static_cast<std::uint32_t>(1 + generator() % (generator() % 4 == 0 ? 700 : 100));
        fill_case(random_case, vocab, generator);
        const auto error = check_against_reference(random_case, *workspaces[vocab - 1], number);
        with_token += error == proto::DecisionError::none ? 1U : 0U;
    }
    CHECK(with_token > cases / 2);
}

TEST_CASE("rows of a real vocabulary's size decide as the reference does") {
    for (const std::uint32_t vocab : {32000U, 151936U, 262144U}) {
        std::mt19937_64 generator(vocab);
        Workspace workspace(vocab);
        RandomCase random_case;
        for (std::uint64_t number = 0; number < 40; ++number) {
            fill_case(random_case, vocab, generator);
            check_against_reference(random_case, workspace, number);
        }
    }
}

}  // namespace croupier::sampler::test
