// Answers of thousands of tokens, and thousands of allowed ids: as the reference gives them, token for token.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "row_fixture.h"
#include "sampler/canonical_order.h"
#include "sampler/decide.h"
#include "sampler/reference/decide.h"
#include "testing/agreement.h"
#include "testing/deciding.h"

using namespace croupier;
using namespace croupier::sampler;
using namespace croupier::sampler::test;

namespace {

constexpr std::uint32_t kVocab = 9000;

enum class Values { spread, ties, equal, outlier, tiny_steps };

std::vector<float> logits_of(Values values, proto::Dtype dtype, std::mt19937_64& generator) {
    std::normal_distribution<double> bell(0.0, 3.0);
    std::vector<float> logits(kVocab);
    for (std::uint32_t token = 0; token < kVocab; ++token) {
        double value = bell(generator);
        if (values == Values::ties) value = std::round(value);
        if (values == Values::equal) value = 1.5;
        if (values == Values::outlier) value = token == 77 ? 1e30 : value * 1e-30;
        if (values == Values::tiny_steps) value = 8.0 + token * 1e-6;
        logits[token] = quantised(static_cast<float>(value), dtype);
    }
    return logits;
}

void check(const RowFixture& row, const Request& request, const std::string& what) {
    Workspace workspace(kVocab);
    const proto::Decision decision = decide_once(row.view(), request, workspace);
    INFO(what);
    const std::string found = difference(outcome_of(decision, workspace.answer()),
                                         reference::decide(row.view(), request), Logprobs::within_error);
    REQUIRE(found.empty());
}

std::vector<Candidate> candidates_of(std::uint32_t count, std::uint32_t different,
                                     std::mt19937_64& generator) {
    std::vector<Candidate> all(count);
    for (std::uint32_t i = 0; i < count; ++i) {
        const auto value = static_cast<double>(generator() % different) - different / 2.0;
        all[i] = {value / 64.0, i};
    }
    return all;
}

}  // namespace

TEST_CASE("the best of many candidates come first in canonical order, and none is lost") {
    std::mt19937_64 generator(3);
    Workspace workspace(kVocab);
    for (const std::uint32_t count : {1U, 100U, 2047U, 2048U, 5000U, kVocab}) {
        for (const std::uint32_t best : {1U, 2U, 100U, 1000U, 2499U, 2500U, 2501U, count}) {
            for (const std::uint32_t different : {1U, 2U, 50U, 1U << 30U}) {
                for (const bool shuffled : {false, true}) {
                    if (best > count) continue;
                    auto expected = candidates_of(count, different, generator);
                    if (shuffled) std::shuffle(expected.begin(), expected.end(), generator);
                    std::copy(expected.begin(), expected.end(), workspace.candidates.begin());
                    sort_best(workspace, count, best);
                    std::sort(expected.begin(), expected.end(), canonically_before);
                    const auto same = [](const Candidate& a, const Candidate& b) {
                        return a.value == b.value && a.token == b.token;
                    };
                    INFO(best << " of " << count << ", " << different << " values");
                    const auto ours = workspace.candidates.first(count);
                    REQUIRE(std::equal(ours.begin(), ours.begin() + best, expected.begin(), same));
                    std::sort(ours.begin(), ours.end(), canonically_before);
                    REQUIRE(std::equal(ours.begin(), ours.end(), expected.begin(), same));
                }
            }
        }
    }
}

TEST_CASE("a support of thousands is the reference's, in its order, with its probabilities") {
    const auto dtype = GENERATE(proto::Dtype::bf16, proto::Dtype::fp32);
    const auto values =
        GENERATE(Values::spread, Values::ties, Values::equal, Values::outlier, Values::tiny_steps);
    std::mt19937_64 generator(21);
    const RowFixture row(logits_of(values, dtype, generator), {dtype, 64, 1, 0, {kVocab}, false, false}, 3);
    const std::vector<std::int32_t> prompt = {1, 2, 3, 500, 501, 502};
    for (const std::uint32_t support : {1U, 63U, 2000U, 4499U, 4500U, 4501U, kVocab, 65536U}) {
        for (const int control : {0, 1, 2, 3, 4}) {
            proto::SamplingParams params;
            params.support = support;
            params.flags = control == 4 ? 0 : proto::kNoLogprob;
            params.seed = support;
            if (control == 1) params.repetition_penalty = 1.3;
            if (control == 2) params.top_p = 0.9;
            if (control == 3) params.temperature = 0.3;
            if (control == 4) {
                params.logprob_mode = proto::LogprobMode::processed;
                params.logprobs = 20;
            }
            Request request;
            request.params = &params;
            request.prompt = prompt;
            request.max_length = 100;
            check(row, request,
                  "support " + std::to_string(support) + ", control " + std::to_string(control));
        }
    }
}

TEST_CASE("thousands of allowed ids are the same set in whatever order, and however often, they are given") {
    const auto dtype = GENERATE(proto::Dtype::bf16, proto::Dtype::fp32);
    std::mt19937_64 generator(22);
    const RowFixture row(logits_of(Values::spread, dtype, generator),
                         {dtype, 64, 1, 0, {kVocab}, false, false}, 3);
    for (const std::size_t count :
         {std::size_t{10}, std::size_t{2047}, std::size_t{2048}, std::size_t{6000}}) {
        std::vector<std::int32_t> ids(kVocab);
        std::iota(ids.begin(), ids.end(), 0);
        std::shuffle(ids.begin(), ids.end(), generator);
        ids.resize(count);
        auto twice = ids;
        twice.insert(twice.end(), ids.begin(), ids.end());
        auto ascending = ids;
        std::sort(ascending.begin(), ascending.end());
        for (const auto* allowed : {&ids, &twice, &ascending}) {
            for (const double top_p : {1.0, 0.7}) {
                for (const std::uint32_t support : {0U, 100U, 5000U}) {
                    proto::SamplingParams params;
                    params.flags = proto::kNoLogprob;
                    params.top_p = top_p;
                    params.support = support;
                    params.seed = count;
                    Request request;
                    request.params = &params;
                    request.allowed_ids = *allowed;
                    request.max_length = 100;
                    check(row, request, std::to_string(count) + " allowed ids");
                }
            }
        }
    }
}
