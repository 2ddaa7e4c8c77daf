// Rows without a best: a search for candidates goes down in many steps, by groups of blocks and by blocks.
#include <catch2/catch.hpp>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "row_fixture.h"
#include "sampler/reference/decide.h"
#include "testing/agreement.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

// Bounds of the highest blocks' values that stand close together, so that two ways to find a floor differ.
std::vector<float> flat_row(std::uint32_t vocab, float width, proto::Dtype dtype,
                            std::mt19937_64& generator) {
    std::vector<float> logits(vocab);
    for (float& logit : logits) {
        const auto share = static_cast<float>(generator() >> 40U) / static_cast<float>(1U << 24U);
        logit = quantised(-width * share, dtype);
    }
    // A few that a penalty takes down, so that what a search finds first does not stand.
    for (std::uint32_t i = 0; i < 64; ++i) logits[generator() % vocab] = quantised(0.5F, dtype);
    return logits;
}

void check(const RowFixture& row, const Request& request, Workspace& workspace) {
    const proto::Decision ours = decide_once(row.view(), request, workspace);
    const reference::Outcome expected = reference::decide(row.view(), request);
    const std::string found =
        difference(outcome_of(ours, workspace.answer()), expected, Logprobs::within_error);
    INFO(found);
    CHECK(found.empty());
}

}  // namespace

TEST_CASE("every token of a flat row is a candidate once") {
    std::mt19937_64 generator(11);
    for (const std::uint32_t vocab : {32000U, 151936U}) {
        Workspace workspace(vocab);
        for (const float width : {0.1F, 1.0F, 3.0F}) {
            const proto::Dtype dtype = generator() % 2 == 0 ? proto::Dtype::bf16 : proto::Dtype::fp32;
            const RowFixture row(flat_row(vocab, width, dtype, generator), {dtype, 64, 1, 0, {}, false});
            std::vector<std::int32_t> output(300);
            for (auto& token : output) token = static_cast<std::int32_t>(generator() % vocab);
            proto::SamplingParams params;
            params.logprobs = 5;
            params.logprob_mode = proto::LogprobMode::processed;
            Request request;
            request.params = &params;
            request.prompt = std::span(output).first(1);
            request.output = output;
            request.max_length = 1000;
            request.wants_support = true;
            for (const double min_p : {0.02, 0.3, 0.7, 0.95}) {
                INFO("vocabulary " << vocab << ", width " << width << ", min_p " << min_p);
                params.min_p = min_p;
                params.seed = generator();
                check(row, request, workspace);
            }
            params.min_p = 0.0;
            for (const std::int32_t top_k : {3, 40, 130, 700}) {
                for (const double penalty : {0.0, 2.0}) {
                    INFO("vocabulary " << vocab << ", width " << width << ", top_k " << top_k << ", penalty "
                                       << penalty);
                    params.top_k = top_k;
                    params.presence_penalty = penalty;
                    params.seed = generator();
                    check(row, request, workspace);
                }
            }
        }
    }
}

}  // namespace croupier::sampler::test
