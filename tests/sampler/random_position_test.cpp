#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "proto/philox.h"
#include "row_fixture.h"
#include "sampler/reference/decide.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::uint32_t kVocab = 400;
constexpr std::size_t kTokens = 24;

// What the row of a step is, whatever came before: only the randoms tell sequences apart.
std::vector<float> row_of_step(std::size_t length) {
    std::vector<float> row(kVocab);
    for (std::size_t i = 0; i < kVocab; ++i) {
        row[i] = quantised(2.0F * std::sin(1.7F * static_cast<float>(i + length)), proto::Dtype::bf16);
    }
    return row;
}

// Goes on until prompt and output have the length; decided by the fast path and by the reference.
Ids go_on(const proto::SamplingParams& params, const Ids& prompt, std::size_t length) {
    Workspace workspace(kVocab);
    Ids output;
    while (prompt.size() + output.size() < length) {
        Request request;
        request.params = &params;
        request.prompt = prompt;
        request.output = output;
        request.max_length = 1000;
        request.random = proto::random_at(params.seed, random_position(request), params.child, 0);
        const RowFixture row(row_of_step(prompt.size() + output.size()), {});
        const proto::Decision decision = decide_once(row.view(), request, workspace);
        REQUIRE(decision.error == proto::DecisionError::none);
        CHECK(decision.position == output.size());
        REQUIRE(decision.token == reference::decide(row.view(), request).decision.token);
        output.push_back(decision.token);
    }
    return output;
}

proto::SamplingParams some_params(proto::Rng rng, int kind) {
    proto::SamplingParams params;
    params.seed = 7;
    params.rng = rng;
    params.temperature = 1.2;
    params.flags = proto::kNoLogprob;
    if (kind == 1) params.top_p = 0.9;
    if (kind == 2) params.xtc_probability = 0.5;
    if (kind == 2) params.xtc_threshold = 0.001;
    return params;
}

}  // namespace

TEST_CASE("a sequence that comes back with its outputs as a prompt goes on to the same tokens") {
    const auto rng = GENERATE(proto::Rng::race, proto::Rng::shvs, proto::Rng::sglang, proto::Rng::vllm);
    const int kind = GENERATE(0, 1, 2);
    INFO("rng " << static_cast<int>(rng) << ", kind " << kind);
    const proto::SamplingParams params = some_params(rng, kind);
    const Ids prompt = {3, 1, 4};
    const Ids whole = go_on(params, prompt, prompt.size() + kTokens);
    for (const std::size_t kept : {1U, 10U, 23U}) {
        Ids longer = prompt;
        longer.insert(longer.end(), whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(kept));
        const Ids rest = go_on(params, longer, prompt.size() + kTokens);
        CHECK(rest == Ids(whole.begin() + static_cast<std::ptrdiff_t>(kept), whole.end()));
    }
}

TEST_CASE("children of one seed draw apart, and not as the next seed's") {
    const auto rng = GENERATE(proto::Rng::race, proto::Rng::shvs);
    const int kind = GENERATE(0, 1, 2);
    proto::SamplingParams params = some_params(rng, kind);
    const Ids first = go_on(params, {5}, kTokens);
    params.child = 1;
    const Ids second = go_on(params, {5}, kTokens);
    params.seed = 8;
    params.child = 0;
    const Ids next_seed = go_on(params, {5}, kTokens);
    CHECK(first != second);
    CHECK(second != next_seed);
    CHECK(first != next_seed);
}

}  // namespace croupier::sampler::test
