#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "case_generator.h"
#include "oracle.h"
#include "sampler/decide.h"

namespace croupier::sampler::test {
namespace {

bool same(const proto::Decision& a, const proto::Decision& b) {
    return a.token == b.token &&
           std::bit_cast<std::uint32_t>(a.logprob) == std::bit_cast<std::uint32_t>(b.logprob) &&
           a.position == b.position && a.flags == b.flags && a.error == b.error;
}

void check_against_oracle(const RandomCase& random_case, Workspace& workspace, std::uint64_t number) {
    const RowFixture row(random_case.logits, random_case.shape, random_case.order_seed);
    const proto::Decision ours = decide(row.view(), random_case.request, workspace);
    const proto::Decision expected = oracle_decision(random_case.logits, row.order(), random_case.request);
    if (same(ours, expected)) return;
    FAIL("case " << number << ": vocabulary " << random_case.logits.size() << ", token " << ours.token
                 << " for " << expected.token << ", logprob " << ours.logprob << " for " << expected.logprob
                 << ", flags " << ours.flags << " for " << expected.flags << ", error "
                 << static_cast<int>(ours.error) << " for " << static_cast<int>(expected.error));
}

}  // namespace

TEST_CASE("every mixture of controls decides as the literal definition does") {
    std::mt19937_64 generator(20261121);
    std::vector<std::unique_ptr<Workspace>> workspaces;
    for (std::uint32_t vocab = 1; vocab <= 300; ++vocab)
        workspaces.push_back(std::make_unique<Workspace>(vocab));
    RandomCase random_case;
    std::uint32_t with_token = 0;
    for (std::uint64_t number = 0; number < 40000; ++number) {
        const auto vocab = static_cast<std::uint32_t>(1 + generator() % 300);
        fill_case(random_case, vocab, generator);
        check_against_oracle(random_case, *workspaces[vocab - 1], number);
        with_token +=
            oracle_decision(random_case.logits, RowFixture(random_case.logits, random_case.shape, 1).order(),
                            random_case.request)
                        .error == proto::DecisionError::none
                ? 1U
                : 0U;
    }
    CHECK(with_token > 30000);
}

TEST_CASE("rows of a real vocabulary's size decide as the literal definition does") {
    std::mt19937_64 generator(151936);
    constexpr std::uint32_t kVocab = 151936;
    Workspace workspace(kVocab);
    RandomCase random_case;
    for (std::uint64_t number = 0; number < 60; ++number) {
        fill_case(random_case, kVocab, generator);
        check_against_oracle(random_case, workspace, number);
    }
}

}  // namespace croupier::sampler::test
