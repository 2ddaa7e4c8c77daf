#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "case_generator.h"
#include "deciding.h"
#include "sampler/reference/decide.h"
#include "sampler/row_mass.h"

namespace croupier::sampler::test {
namespace {

std::string difference(const proto::Decision& ours, const reference::Outcome& expected,
                       const Answer& answer) {
    const proto::Decision& theirs = expected.decision;
    std::ostringstream text;
    if (ours.error != theirs.error) {
        text << "error " << static_cast<int>(ours.error) << " for " << static_cast<int>(theirs.error);
    } else if (ours.token != theirs.token) {
        text << "token " << ours.token << " for " << theirs.token;
    } else if (ours.flags != theirs.flags || ours.position != theirs.position) {
        text << "flags " << ours.flags << " for " << theirs.flags;
    } else if (ours.error == proto::DecisionError::none && !logprobs_agree(ours.logprob, theirs.logprob)) {
        text << "logprob " << ours.logprob << " for " << theirs.logprob;
    } else if (answer.feedback.level != expected.feedback.level ||
               answer.feedback.weight != expected.feedback.weight) {
        text << "feedback " << answer.feedback.level << " for " << expected.feedback.level;
    }
    return text.str();
}

std::string difference(std::span<const Survivor> ours, const std::vector<Survivor>& expected) {
    if (ours.size() != expected.size()) {
        return std::to_string(ours.size()) + " survivors for " + std::to_string(expected.size());
    }
    for (std::size_t i = 0; i < ours.size(); ++i) {
        if (ours[i].token != expected[i].token || ours[i].probability != expected[i].probability) {
            std::ostringstream text;
            text.precision(17);
            text << "survivor " << i << " is " << ours[i].token << " with " << ours[i].probability << " for "
                 << expected[i].token << " with " << expected[i].probability;
            return text.str();
        }
    }
    return {};
}

std::string difference(std::span<const RankedLogprob> ours, const std::vector<RankedLogprob>& expected,
                       std::uint32_t wanted) {
    if (wanted == 0) return {};
    if (ours.size() != expected.size()) {
        return std::to_string(ours.size()) + " log-probs for " + std::to_string(expected.size());
    }
    for (std::size_t i = 0; i < ours.size(); ++i) {
        if (ours[i].token != expected[i].token || ours[i].rank != expected[i].rank ||
            !logprobs_agree(ours[i].logprob, expected[i].logprob)) {
            return "log-prob " + std::to_string(i) + " is of " + std::to_string(ours[i].token) + ", rank " +
                   std::to_string(ours[i].rank) + " for " + std::to_string(expected[i].token) + ", rank " +
                   std::to_string(expected[i].rank);
        }
    }
    return {};
}

proto::DecisionError check_against_reference(const RandomCase& random_case, Workspace& workspace,
                                             std::uint64_t number) {
    const RowFixture row(random_case.logits, random_case.shape, random_case.order_seed);
    const proto::Decision ours = decide_once(row.view(), random_case.request, workspace);
    const reference::Outcome expected = reference::decide(row.view(), random_case.request);
    const Answer& answer = workspace.answer();
    std::string fault = difference(ours, expected, answer);
    if (fault.empty()) fault = difference(answer.support, expected.support);
    if (fault.empty()) {
        fault = difference(answer.logprobs, expected.logprobs, random_case.params.logprobs);
    }
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
