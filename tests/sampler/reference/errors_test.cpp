#include <catch2/catch.hpp>
#include <limits>

#include "probe.h"

namespace croupier::sampler::test {
namespace {

using proto::DecisionError;

constexpr std::int32_t kVocab = 40;

Probe healthy() {
    return Probe(std::vector<float>(kVocab, 1.0F));
}

DecisionError error_of(const Probe& probe) {
    const reference::Outcome outcome = probe.decide();
    CHECK((outcome.decision.token == -1) == (outcome.decision.error != DecisionError::none));
    return outcome.decision.error;
}

}  // namespace

TEST_CASE("reference: worst rows are errors that name the cause, NaN before +inf, whatever the mask hides") {
    Probe probe = healthy();
    CHECK(error_of(probe) == DecisionError::none);
    const std::vector<std::uint32_t> mask = {~0U << 4U, ~0U};
    probe.request.mask = mask;
    probe.logits[3] = std::numeric_limits<float>::infinity();
    CHECK(error_of(probe) == DecisionError::infinite_logit);
    probe.logits[30] = std::numeric_limits<float>::quiet_NaN();
    CHECK(error_of(probe) == DecisionError::nan_logit);
}

TEST_CASE("reference: a row without a token left is an error, whoever took the last") {
    Probe probe = healthy();
    const std::vector<std::uint32_t> none = {0U, 0U};
    const std::vector<std::uint32_t> one = {1U << 5U, 0U};
    const Ids ids = {5};
    const Ids words = {1, 5};
    SECTION("the logits") {
        probe.logits.assign(kVocab, -std::numeric_limits<float>::infinity());
    }
    SECTION("the mask") {
        probe.request.mask = none;
    }
    SECTION("the allowed ids") {
        probe.request.mask = one;
        const Ids other = {6};
        probe.request.allowed_ids = other;
        CHECK(error_of(probe) == DecisionError::no_token_left);
        probe.request.allowed_ids = {};
        probe.request.bad_words = words;
    }
    SECTION("the ban of stops") {
        probe.request.mask = one;
        probe.request.stop_ids = ids;
        probe.params.min_tokens = 1;
    }
    CHECK(error_of(probe) == DecisionError::no_token_left);
}

TEST_CASE("reference: rows of huge logits and of one value everywhere are decided") {
    Probe flat(std::vector<float>(5000, -3.0F));
    flat.params.top_p = 0.5;
    flat.params.typical_p = 0.5;
    flat.params.top_n_sigma = 1.0;
    CHECK(error_of(flat) == DecisionError::none);
    Probe huge({3e38F, -3e38F, 0.0F, 3e38F});
    huge.params.top_n_sigma = 1.0;
    huge.params.typical_p = 0.9;
    huge.params.dynatemp_range = 0.5;
    CHECK(error_of(huge) == DecisionError::none);
    CHECK(huge.kept() == Ids{0, 3});
}

TEST_CASE("reference: ids outside the vocabulary are refused wherever they stand") {
    const auto id = GENERATE(-1, kVocab, std::numeric_limits<std::int32_t>::min());
    Probe probe = healthy();
    const Ids tokens = {1, id};
    const Ids lists = {1, 3, 2, 4, id};
    const std::vector<proto::TokenBias> bias = {{id, 1.0F}};
    SECTION("prompt") {
        probe.request.prompt = tokens;
    }
    SECTION("output") {
        probe.request.output = tokens;
    }
    SECTION("stop ids") {
        probe.request.stop_ids = tokens;
    }
    SECTION("bias") {
        probe.request.bias = bias;
    }
    SECTION("allowed ids") {
        probe.request.allowed_ids = tokens;
    }
    SECTION("bad words") {
        probe.request.bad_words = lists;
    }
    SECTION("breakers") {
        probe.request.dry_breakers = lists;
    }
    CHECK(error_of(probe) == DecisionError::bad_token);
}

TEST_CASE("reference: an EOS id outside the vocabulary is refused") {
    Probe probe = healthy();
    probe.params.eos_token_id = kVocab;
    CHECK(error_of(probe) == DecisionError::bad_token);
}

TEST_CASE("reference: malformed lists are refused") {
    const Ids list = GENERATE(Ids{0}, Ids{-1, 2}, Ids{2, 1}, Ids{1, 2, 3}, Ids{2147483647});
    Probe probe = healthy();
    SECTION("bad words") {
        probe.request.bad_words = list;
    }
    SECTION("breakers") {
        probe.request.dry_breakers = list;
    }
    CHECK(error_of(probe) == DecisionError::bad_record);
}

TEST_CASE("reference: parameters, biases, masks, lengths and feedback that cannot be are refused") {
    Probe probe = healthy();
    const std::vector<std::uint32_t> mask = {~0U};
    const std::vector<proto::TokenBias> bias = {{3, 101.0F}};
    const Ids prompt = {1, 2, 3};
    SECTION("a parameter") {
        probe.params.top_p = 0.0;
        CHECK(error_of(probe) == DecisionError::bad_parameter);
    }
    SECTION("a bias") {
        probe.request.bias = bias;
        CHECK(error_of(probe) == DecisionError::bad_parameter);
    }
    SECTION("a short mask") {
        probe.request.mask = mask;
        CHECK(error_of(probe) == DecisionError::bad_mask);
    }
    SECTION("a full sequence") {
        probe.request.prompt = prompt;
        probe.request.max_length = 3;
        CHECK(error_of(probe) == DecisionError::sequence_full);
    }
    SECTION("feedback that is not a number") {
        probe.request.feedback.level = std::numeric_limits<double>::quiet_NaN();
        CHECK(error_of(probe) == DecisionError::bad_record);
    }
}

TEST_CASE(
    "reference: a view that does not cover the vocabulary is refused, one that reaches beyond it is not") {
    Probe probe = healthy();
    probe.shape.shards = {20, 19};
    CHECK(error_of(probe) == DecisionError::bad_record);
    probe.shape.shards = {20, 60, 64};
    probe.shape.permuted = true;
    CHECK(error_of(probe) == DecisionError::none);
}

}  // namespace croupier::sampler::test
