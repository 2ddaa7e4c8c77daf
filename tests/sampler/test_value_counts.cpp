#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "deciding.h"
#include "proto/philox.h"
#include "row_fixture.h"
#include "sampler/reference/decide.h"

namespace croupier::sampler::test {
namespace {

constexpr std::uint32_t kVocab = 30000;

// A language model's shape, roughly: a broad normal bulk and a few tokens above it.
std::vector<float> row_of(std::mt19937_64& generator, proto::Dtype dtype) {
    std::normal_distribution<float> bulk(std::uniform_real_distribution<float>(-8.0F, 8.0F)(generator), 1.7F);
    std::vector<float> logits(kVocab);
    for (float& logit : logits) logit = quantised(bulk(generator), dtype);
    const int raised = std::uniform_int_distribution<int>(20, 1000)(generator);
    std::exponential_distribution<float> height(0.3F);
    for (int i = 0; i < raised; ++i) {
        float& logit = logits[std::uniform_int_distribution<std::size_t>(0, kVocab - 1)(generator)];
        logit = quantised(logit + height(generator) * 2.0F, dtype);
    }
    return logits;
}

}  // namespace

// Of nuclei from one token to most of the row: the vocabulary is large enough for a head, which random
// mixtures of controls hardly ever are.
TEST_CASE("a nucleus alone, of a 16-bit row, is drawn from as the reference does") {
    std::mt19937_64 generator(41);
    Workspace workspace(kVocab);
    Request request;
    request.max_length = 10;
    std::set<std::string> paths;
    int from_head = 0;
    for (int number = 0; number < 150; ++number) {
        const proto::Dtype dtype = number % 5 == 4 ? proto::Dtype::fp16 : proto::Dtype::bf16;
        const RowShape shape = {dtype, 64, 1, 0, {}, false, number % 3 == 2};
        const RowFixture row(row_of(generator, dtype), shape);
        proto::SamplingParams params;
        params.flags = proto::kNoLogprob;
        params.seed = generator();
        params.temperature = std::exp(std::uniform_real_distribution<double>(-0.5, 0.4)(generator));
        params.top_p = 1.0 - std::exp(std::uniform_real_distribution<double>(-5.0, -0.2)(generator));
        if (number % 7 == 6) params.order = {proto::Step::top_p, proto::Step::temperature};
        request.params = &params;
        for (std::uint32_t draw = 0; draw < 40; ++draw) {
            request.position_shift = draw;
            request.random = proto::random_at(params.seed, draw, 0, 0);
            const proto::Decision decision = decide_once(row.view(), request, workspace);
            const proto::Decision expected = reference::decide(row.view(), request).decision;
            REQUIRE(decision.error == proto::DecisionError::none);
            INFO("row " << number << " draw " << draw << " T " << params.temperature << " p "
                        << params.top_p);
            REQUIRE(decision.token == expected.token);
            paths.insert(name_of(workspace.answer().path));
            if (workspace.answer().candidates < kVocab) ++from_head;
        }
    }
    CHECK(paths == std::set<std::string>{"counts"});
    UNSCOPED_INFO("from the head: " << from_head);
    CHECK(from_head > 3000);
    CHECK(from_head < 5900);
}

}  // namespace croupier::sampler::test
