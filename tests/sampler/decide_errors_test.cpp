#include <catch2/catch.hpp>
#include <limits>
#include <vector>

#include "row_fixture.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

using proto::DecisionError;

constexpr std::uint32_t kVocab = 40;

struct Subject {
    std::vector<float> logits = std::vector<float>(kVocab, 1.0F);
    RowShape shape;
    proto::SamplingParams params;
    Request request;
    std::uint32_t workspace_vocab = kVocab;

    Subject() {
        request.params = &params;
        request.max_length = 100;
    }
    Subject(const Subject&) = delete;
    Subject& operator=(const Subject&) = delete;

    DecisionError error() const {
        const RowFixture row(logits, shape);
        return error_of(row.view());
    }
    DecisionError error_of(const RowView& view) const {
        Workspace workspace(workspace_vocab);
        const proto::Decision decision = decide_once(view, request, workspace);
        CHECK((decision.token == -1) == (decision.error != DecisionError::none));
        return decision.error;
    }
};

}  // namespace

TEST_CASE("a healthy request has no error") {
    CHECK(Subject().error() == DecisionError::none);
}

TEST_CASE("NaN and +inf are errors even where the mask hides them") {
    Subject subject;
    const std::vector<std::uint32_t> mask = {~0U << 4U, ~0U};
    subject.request.mask = mask;
    subject.logits[3] = std::numeric_limits<float>::infinity();
    CHECK(subject.error() == DecisionError::infinite_logit);
    subject.logits[2] = std::numeric_limits<float>::quiet_NaN();
    CHECK(subject.error() == DecisionError::nan_logit);
}

TEST_CASE("a row without a token left is an error, whoever took the last") {
    Subject subject;
    SECTION("the logits") {
        subject.logits.assign(kVocab, -std::numeric_limits<float>::infinity());
        CHECK(subject.error() == DecisionError::no_token_left);
    }
    SECTION("the mask") {
        const std::vector<std::uint32_t> mask(2, 0U);
        subject.request.mask = mask;
        CHECK(subject.error() == DecisionError::no_token_left);
    }
    SECTION("the ban of EOS before min_tokens") {
        const std::vector<std::uint32_t> mask = {1U << 5U, 0U};
        subject.request.mask = mask;
        subject.params.eos_token_id = 5;
        CHECK(subject.error() == DecisionError::none);
        subject.params.min_tokens = 1;
        CHECK(subject.error() == DecisionError::no_token_left);
    }
}

TEST_CASE("parameters and biases outside their ranges are refused") {
    Subject subject;
    subject.params.top_p = 0.0;
    CHECK(subject.error() == DecisionError::bad_parameter);
    subject.params.top_p = 1.0;
    const std::vector<proto::TokenBias> bias = {{3, 101.0F}};
    subject.request.bias = bias;
    CHECK(subject.error() == DecisionError::bad_parameter);
}

TEST_CASE("ids outside the vocabulary are refused wherever they stand") {
    const auto id = GENERATE(-1, static_cast<std::int32_t>(kVocab), std::numeric_limits<std::int32_t>::min());
    Subject subject;
    const std::vector<std::int32_t> tokens = {1, id};
    const std::vector<proto::TokenBias> bias = {{id, 1.0F}};
    SECTION("prompt") {
        subject.request.prompt = tokens;
    }
    SECTION("output") {
        subject.request.output = tokens;
    }
    SECTION("stop ids") {
        subject.request.stop_ids = tokens;
    }
    SECTION("bias") {
        subject.request.bias = bias;
    }
    CHECK(subject.error() == DecisionError::bad_token);
}

TEST_CASE("an EOS id outside the vocabulary is refused") {
    Subject subject;
    subject.params.eos_token_id = kVocab;
    CHECK(subject.error() == DecisionError::bad_token);
}

TEST_CASE("a mask shorter than the vocabulary is refused") {
    Subject subject;
    const std::vector<std::uint32_t> mask = {~0U};
    subject.request.mask = mask;
    CHECK(subject.error() == DecisionError::bad_mask);
}

TEST_CASE("a full sequence is refused") {
    Subject subject;
    const std::vector<std::int32_t> prompt = {1, 2, 3};
    subject.request.prompt = prompt;
    subject.request.max_length = 3;
    CHECK(subject.error() == DecisionError::sequence_full);
    subject.request.max_length = 4;
    CHECK(subject.error() == DecisionError::none);
}

TEST_CASE("a view that does not cover the vocabulary, or another workspace's, is refused") {
    Subject subject;
    subject.shape.shards = {20, 19};
    CHECK(subject.error() == DecisionError::bad_record);
    subject.shape.shards = {20, 20};
    CHECK(subject.error() == DecisionError::none);
    subject.shape.shards = {20, 30, 0, 64};  // padded beyond it
    CHECK(subject.error() == DecisionError::none);
    subject.workspace_vocab = kVocab + 1;
    CHECK(subject.error() == DecisionError::bad_record);
}

}  // namespace croupier::sampler::test
