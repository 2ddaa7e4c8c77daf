// Under each filter, draws follow the distribution that the filter leaves.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "chi_square.h"
#include "row_fixture.h"
#include "sampler/decide.h"
#include "sampler/reference/decide.h"

namespace croupier::sampler::test {
namespace {

constexpr std::uint32_t kVocab = 2003;
constexpr std::uint32_t kDraws = 100000;

// Over a hundred tokens of some weight, many of them equal, strewn over all blocks.
std::vector<float> wide_logits() {
    std::vector<float> logits(kVocab);
    for (std::uint32_t id = 0; id < kVocab; ++id) {
        const auto place = static_cast<float>(id * 769 % kVocab);
        logits[id] = quantised(6.0F - 1.1F * std::sqrt(place) / 3.0F, proto::Dtype::bf16);
    }
    return logits;
}

struct Filtered {
    proto::SamplingParams params;
    std::vector<std::int32_t> prompt;
    std::vector<std::int32_t> output;
    std::vector<proto::TokenBias> bias;
    std::vector<std::uint32_t> mask;
    std::vector<std::int32_t> allowed_ids;
    proto::Feedback feedback;
    DecisionPath path = DecisionPath::race;
    proto::Dtype dtype = proto::Dtype::bf16;

    Request request() const {
        Request request;
        request.params = &params;
        request.prompt = prompt;
        request.output = output;
        request.bias = bias;
        request.mask = mask;
        request.allowed_ids = allowed_ids;
        request.feedback = feedback;
        request.max_length = 1000;
        return request;
    }
};

// Tokens of little probability are taken together; a token outside the support fails.
void check_draws(std::vector<double> observed, const std::vector<Survivor>& support) {
    double statistic = 0.0;
    double groups = 0.0;
    double expected = 0.0;
    double seen = 0.0;
    double all_seen = 0.0;
    for (const Survivor& survivor : support) {
        const double count = observed[static_cast<std::size_t>(survivor.token)];
        expected += kDraws * survivor.probability;
        seen += count;
        all_seen += count;
        if (expected < 20.0) continue;
        statistic += std::pow(seen - expected, 2.0) / expected;
        groups += 1.0;
        expected = seen = 0.0;
    }
    CHECK(all_seen == kDraws);
    REQUIRE(groups > 100.0);
    CHECK(statistic < chi_square_limit(groups - 1.0));
}

void check(Filtered& filtered) {
    const RowFixture row(wide_logits(), {filtered.dtype, 64, 2, 1, {700, 1303}, true, true}, 17);
    Workspace workspace(kVocab);
    SequenceState state(kVocab, 1000);
    filtered.params.flags = proto::kNoLogprob;
    filtered.params.seed = 1;
    Request request = filtered.request();
    request.wants_support = true;
    const std::vector<Survivor> support = reference::decide(row.view(), request).support;
    request.wants_support = false;
    std::vector<double> observed(kVocab, 0.0);
    state.begin(filtered.params, {});
    std::uint32_t by_path = 0;
    for (std::uint32_t i = 0; i < kDraws; ++i, ++filtered.params.seed) {
        const proto::Decision decision = decide(row.view(), request, state, workspace);
        REQUIRE(decision.error == proto::DecisionError::none);
        observed[static_cast<std::size_t>(decision.token)] += 1.0;
        by_path += workspace.answer().path == filtered.path ? 1U : 0U;
    }
    // A boundary that is too near for the bounds is decided exactly, seldom.
    CHECK(by_path > kDraws - kDraws / 20);
    check_draws(observed, support);
}

std::vector<std::int32_t> every(std::int32_t step) {
    std::vector<std::int32_t> tokens;
    for (std::int32_t token = 0; token < static_cast<std::int32_t>(kVocab); token += step)
        tokens.push_back(token);
    return tokens;
}

}  // namespace

TEST_CASE("a race under one filter draws by the distribution that the filter leaves") {
    Filtered filtered;
    filtered.params.temperature = 1.2;
    filtered.path = DecisionPath::asked;
    SECTION("none") {
        filtered.path = DecisionPath::race;
    }
    SECTION("top_k") {
        filtered.params.top_k = 150;
        filtered.path = DecisionPath::head;
    }
    SECTION("min_p") {
        filtered.params.min_p = 0.02;
        filtered.path = DecisionPath::head;
    }
    SECTION("top_p") {
        filtered.params.top_p = 0.9;
    }
    SECTION("top_n_sigma") {
        filtered.params.top_n_sigma = 1.5;
    }
    SECTION("typical_p") {
        filtered.params.typical_p = 0.7;
    }
    SECTION("XTC") {
        filtered.params.xtc_probability = 1.0;
        filtered.params.xtc_threshold = 0.004;
    }
    check(filtered);
}

TEST_CASE("a race over what mirostat keeps draws by the distribution that it leaves") {
    Filtered filtered;
    filtered.path = DecisionPath::mirostat;
    SECTION("v1") {
        filtered.params.mirostat = 1;
        filtered.feedback = {11.5, 1.0};
    }
    SECTION("v2") {
        filtered.params.mirostat = 2;
        filtered.feedback = {10.0, 1.0};
    }
    check(filtered);
}

TEST_CASE("a race under dynamic temperature draws by the softmax at the temperature that it sets") {
    Filtered filtered;
    filtered.params.dynatemp_range = 0.5;
    SECTION("alone") {
        filtered.path = DecisionPath::asked;
    }
    SECTION("beside a filter") {
        filtered.path = DecisionPath::classes;
        filtered.params.top_p = 0.9;
    }
    check(filtered);
}

TEST_CASE(
    "a race under two filters draws by the distribution that they leave, over classes of one value or "
    "several") {
    Filtered filtered;
    filtered.params.temperature = 1.2;
    filtered.params.typical_p = 0.95;
    filtered.params.xtc_probability = 1.0;
    filtered.params.xtc_threshold = 0.004;
    filtered.path = DecisionPath::classes;
    filtered.dtype = GENERATE(proto::Dtype::bf16, proto::Dtype::fp32);
    check(filtered);
}

TEST_CASE("a race over what is behind a top-p or a sigma that stands first draws by what all filters leave") {
    Filtered filtered;
    filtered.params.temperature = 1.2;
    filtered.path = DecisionPath::head;
    filtered.dtype = GENERATE(proto::Dtype::bf16, proto::Dtype::fp32);
    SECTION("typical-p behind a top-p") {
        filtered.params.top_p = 0.9;
        filtered.params.typical_p = 0.95;
    }
    SECTION("a top-p behind a top-k behind a sigma") {
        filtered.params.top_n_sigma = 1.6;
        filtered.params.top_k = 200;
        filtered.params.top_p = 0.95;
    }
    check(filtered);
}

TEST_CASE("a race over adaptive-p's logits draws by the distribution that it aims at") {
    Filtered filtered;
    filtered.params.adaptive_target = 0.02;
    filtered.feedback = {0.2, 10.0};
    filtered.path = DecisionPath::classes;
    check(filtered);
}

TEST_CASE("a race of adjusted logits draws by their softmax") {
    Filtered filtered;
    filtered.params.temperature = 1.6;
    SECTION("penalties that lower and raise") {
        filtered.params.repetition_penalty = 1.4;
        filtered.params.frequency_penalty = -1.0;
        filtered.params.presence_penalty = 0.5;
        filtered.prompt = every(7);
        filtered.output = every(40);
    }
    SECTION("biases up") {
        for (const std::int32_t token : every(31)) filtered.bias.push_back({token, 3.0F});
    }
    SECTION("biases up, before top_p") {
        for (const std::int32_t token : every(31)) filtered.bias.push_back({token, 3.0F});
        filtered.params.top_p = 0.9;
        filtered.path = DecisionPath::asked;
    }
    SECTION("a mask of half the tokens") {
        filtered.mask.assign((kVocab + 31) / 32, 0x5A5A5A5AU);
    }
    SECTION("allowed ids") {
        filtered.allowed_ids = every(5);
        filtered.path = DecisionPath::listed;
    }
    check(filtered);
}

}  // namespace croupier::sampler::test
