#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "case_generator.h"
#include "lm_cases.h"
#include "more_cases.h"
#include "sampler/reference/decide.h"
#include "testing/agreement.h"
#include "testing/deciding.h"

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

// How often each path decided, and left a question open.
struct PathCounts {
    std::array<std::uint64_t, static_cast<std::size_t>(DecisionPath::count_)> taken{};
    std::array<std::uint64_t, static_cast<std::size_t>(DecisionPath::count_)> left_open{};

    void note(const Answer& answer) {
        ++taken[static_cast<std::size_t>(answer.path)];
        ++left_open[static_cast<std::size_t>(answer.left_open)];
    }
};

}  // namespace

TEST_CASE("every mixture of controls decides as the reference does") {
    std::mt19937_64 generator = seeded(20261121);
    std::vector<std::unique_ptr<Workspace>> workspaces;
    for (std::uint32_t vocab = 1; vocab <= 700; ++vocab)
        workspaces.push_back(std::make_unique<Workspace>(vocab));
    RandomCase random_case;
    std::uint64_t with_token = 0;
    const std::uint64_t cases = cases_to_compare("CROUPIER_ORACLE_CASES", 60000);
    for (std::uint64_t number = 0; number < cases; ++number) {
        const auto vocab = static_cast<std::uint32_t>(1 + generator() % (generator() % 4 == 0 ? 700 : 100));
        fill_case(random_case, vocab, generator);
        const auto error = check_against_reference(random_case, *workspaces[vocab - 1], number);
        with_token += error == proto::DecisionError::none ? 1U : 0U;
    }
    CHECK(with_token > cases / 2);
}

TEST_CASE("rows of a real vocabulary's size decide as the reference does") {
    const std::uint64_t cases = cases_to_compare("CROUPIER_ORACLE_LARGE_CASES", 40);
    for (const std::uint32_t vocab : {32000U, 151936U, 262144U}) {
        std::mt19937_64 generator = seeded(vocab);
        Workspace workspace(vocab);
        RandomCase random_case;
        for (std::uint64_t number = 0; number < cases; ++number) {
            fill_case(random_case, vocab, generator);
            check_against_reference(random_case, workspace, number);
        }
    }
}

// Of rows so long that lists of the best are sought block by block.
TEST_CASE("what is answered of all that is left of a long row is the reference's, whatever stands first") {
    constexpr std::uint32_t kVocab = 70001;
    std::mt19937_64 generator = seeded(20261126);
    Workspace workspace(kVocab);
    LmCase of;
    const auto one_of = [&](std::initializer_list<double> values) {
        return *(values.begin() + generator() % values.size());
    };
    const std::uint64_t cases = cases_to_compare("CROUPIER_ORACLE_LONG_CASES", 160);
    for (std::uint64_t number = 0; number < cases; ++number) {
        if (number % 4 == 0) fill_lm_row(of, kVocab, static_cast<proto::Dtype>(number / 4 % 3), generator);
        fill_lm_request(of, generator);
        proto::SamplingParams& params = of.params;
        params.temperature = one_of({0.0, 0.3, 0.6, 0.8, 1.0, 1.5});
        params.top_p = one_of({1e-6, 0.3, 0.9, 0.95, 0.99, std::nextafter(1.0, 0.0), 1.0});
        params.top_k = generator() % 3 == 0 ? 60 : 0;
        params.top_n_sigma = one_of({0.0, 0.0, 1.0, 3.0});
        params.min_p = one_of({0.0, 0.0, 0.001, 0.05});
        params.xtc_probability = one_of({0.0, 1.0});
        params.support = static_cast<std::uint32_t>(one_of({0.0, 0.0, 1.0, 64.0, 65536.0}));
        params.logprobs = static_cast<std::uint32_t>(one_of({0.0, 0.0, 5.0, 1024.0}));
        params.flags = 0;
        params.logprob_mode = generator() % 4 == 0 ? proto::LogprobMode::raw : proto::LogprobMode::processed;
        params.rng = generator() % 3 == 0 ? static_cast<proto::Rng>(generator() % 4) : proto::Rng::race;
        check_against_reference(of, workspace, number);
    }
}

TEST_CASE("a model's rows and people's requests decide as the reference does, by every path") {
    std::mt19937_64 generator = seeded(20261125);
    PathCounts paths;
    const std::uint64_t cases = cases_to_compare("CROUPIER_ORACLE_FULL_CASES", 200);
    constexpr std::uint64_t kRequestsOfARow = 4;
    for (const std::uint32_t vocab : {151936U, 50257U}) {
        Workspace workspace(vocab);
        LmCase lm_case;
        for (std::uint64_t number = 0; number < cases / 2; ++number) {
            if (number % kRequestsOfARow == 0) {
                constexpr proto::Dtype kDtypes[] = {proto::Dtype::bf16, proto::Dtype::bf16,
                                                    proto::Dtype::fp16, proto::Dtype::fp32};
                fill_lm_row(lm_case, vocab, kDtypes[generator() % 4], generator);
                const std::uint32_t ranks = 1 + generator() % 4;
                const std::uint32_t tile = generator() % 4 == 0 ? 1 : kBlock;
                lm_case.shape = lm_shape(vocab, ranks, tile, lm_case.shape.dtype, generator);
                lm_case.order_seed = generator();
            }
            fill_lm_request(lm_case, generator);
            check_against_reference(lm_case, workspace, number);
            paths.note(workspace.answer());
        }
    }
    for (auto path = static_cast<std::size_t>(DecisionPath::listed); path < paths.taken.size(); ++path) {
        INFO("path " << name_of(static_cast<DecisionPath>(path)));
        CHECK(paths.taken[path] > 0);
    }
    CHECK(paths.left_open[static_cast<std::size_t>(DecisionPath::asked)] > 0);
}

TEST_CASE(
    "what falls on a filter's very boundary is left open by the bounds and decided as the reference does") {
    // Four equal tokens, shares of a quarter each, in a row that has nothing else.
    constexpr std::uint32_t kVocab = 151936;
    LmCase lm_case;
    lm_case.logits.assign(kVocab, -std::numeric_limits<float>::infinity());
    for (const std::uint32_t token : {70U, 5000U, 5001U, 151935U}) lm_case.logits[token] = 3.0F;
    bind_request(lm_case);
    lm_case.request.max_length = 100;
    const auto dtype = GENERATE(proto::Dtype::bf16, proto::Dtype::fp32);
    lm_case.shape.dtype = dtype;
    SECTION("top-p") {
        lm_case.params.top_p = 0.5;
    }
    SECTION("XTC") {
        lm_case.params.xtc_probability = 1.0;
        lm_case.params.xtc_threshold = 0.25;
    }
    SECTION("typical-p") {
        lm_case.params.typical_p = 0.5;
    }
    Workspace workspace(kVocab);
    PathCounts paths;
    for (lm_case.params.seed = 0; lm_case.params.seed < 40; ++lm_case.params.seed) {
        check_against_reference(lm_case, workspace, lm_case.params.seed);
        paths.note(workspace.answer());
    }
    CHECK(paths.left_open[static_cast<std::size_t>(DecisionPath::asked)] > 0);
    CHECK(paths.taken[static_cast<std::size_t>(DecisionPath::classes)] > 0);
}

TEST_CASE(
    "typical-p does not count a token among those nearer than itself whose adjusted logit no float holds") {
    LmCase lm_case;
    lm_case.logits.assign(64, 9.5F);
    lm_case.logits[13] = 5.07677746F;
    lm_case.logits[32] = 4.65870905F;
    lm_case.bias = {{13, 10.0F}, {32, 10.5F}};
    const double adjusted = static_cast<double>(lm_case.logits[32]) + 10.5;
    REQUIRE(static_cast<double>(static_cast<float>(adjusted)) != adjusted);
    bind_request(lm_case);
    lm_case.request.max_length = 100;
    lm_case.params.temperature = 0.7;
    lm_case.params.typical_p = 0.9;
    Workspace workspace(64);
    PathCounts paths;
    for (lm_case.params.seed = 0; lm_case.params.seed < 40; ++lm_case.params.seed) {
        check_against_reference(lm_case, workspace, lm_case.params.seed);
        paths.note(workspace.answer());
    }
    CHECK(paths.taken[static_cast<std::size_t>(DecisionPath::asked)] > 0);
}

TEST_CASE("typical-p takes the larger of values whose distances round to the same") {
    constexpr std::uint32_t kVocab = 38;
    Workspace workspace(kVocab);
    for (const double typical_p : {1e-4, 0.08, 0.3, 0.6, 0.9}) {
        LmCase lm_case;
        for (std::uint32_t token = 0; token < kVocab; ++token) {
            constexpr float kNearZero[] = {0.0F, 5e-38F, 6e-36F, -2e-31F, 1e-18F, -1e-26F, -16.5F, -0.5F};
            lm_case.logits.push_back(kNearZero[token % std::size(kNearZero)]);
        }
        bind_request(lm_case);
        lm_case.request.max_length = 100;
        lm_case.params.typical_p = typical_p;
        for (lm_case.params.seed = 0; lm_case.params.seed < 60; ++lm_case.params.seed) {
            check_against_reference(lm_case, workspace, lm_case.params.seed);
        }
    }
}

TEST_CASE("mirostat is the reference's where a bias took nearly all of the row's weight away") {
    constexpr std::uint32_t kVocab = 300;
    Workspace workspace(kVocab);
    const float height = GENERATE(10.0F, 40.0F, 80.0F);
    LmCase lm_case;
    lm_case.logits.assign(kVocab, 0.0F);
    for (std::uint32_t token = 0; token < kVocab; ++token)
        lm_case.logits[token] = 0.25F * static_cast<float>(token % 23);
    lm_case.logits[7] = height;
    lm_case.bias = {{7, -100.0F}};
    bind_request(lm_case);
    lm_case.request.max_length = 100;
    lm_case.params.mirostat = 2;
    for (const double tau : {0.5, 2.0, 4.0}) {
        lm_case.params.mirostat_tau = tau;
        for (lm_case.params.seed = 0; lm_case.params.seed < 40; ++lm_case.params.seed) {
            check_against_reference(lm_case, workspace, lm_case.params.seed);
        }
    }
}

}  // namespace croupier::sampler::test
