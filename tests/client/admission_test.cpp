#include "client/admission.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "croupier/client.hpp"
#include "proto/sampling.h"

using namespace croupier;
using Catch::Matchers::Contains;

namespace {

constexpr std::uint32_t kVocab = 1000;
constexpr auto kFirstUnknownStep = static_cast<std::uint8_t>(proto::Step::count_);

proto::Geometry geometry() {
    proto::Geometry geometry;
    geometry.vocab = kVocab;
    return geometry;
}

croupier_sequence sound_sequence() {
    static const client::Params params;
    croupier_sequence sequence;
    croupier_sequence_init(&sequence);
    sequence.uid = 7;
    sequence.params = &params;
    return sequence;
}

struct BadParam {
    std::string field;
    std::function<void(croupier_params&)> spoil;
};

}  // namespace

TEST_CASE("a parameter outside its range is refused by its name, with the range") {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const auto bad = GENERATE_COPY(values<BadParam>({
        {"temperature is -0.5; allowed: 0 to 100", [](auto& p) { p.temperature = -0.5; }},
        {"temperature is 100.5; allowed: 0 to 100", [](auto& p) { p.temperature = 100.5; }},
        {"temperature is nan", [=](auto& p) { p.temperature = nan; }},
        {"top_p is 0; allowed: above 0, up to 1", [](auto& p) { p.top_p = 0.0; }},
        {"top_p is 1.5", [](auto& p) { p.top_p = 1.5; }},
        {"min_p is -0.1; allowed: 0 to 1", [](auto& p) { p.min_p = -0.1; }},
        {"min_p is nan", [=](auto& p) { p.min_p = nan; }},
        {"repetition_penalty is 0; allowed: 0.01 to 100", [](auto& p) { p.repetition_penalty = 0.0; }},
        {"frequency_penalty is 2.5; allowed: -2 to 2", [](auto& p) { p.frequency_penalty = 2.5; }},
        {"presence_penalty is -2.5; allowed: -2 to 2", [](auto& p) { p.presence_penalty = -2.5; }},
        {"top_k is -2", [](auto& p) { p.top_k = -2; }},
        {"eos_token_id is 1000; allowed: 0 to 999, or -1", [](auto& p) { p.eos_token_id = 1000; }},
        {"eos_token_id is -2", [](auto& p) { p.eos_token_id = -2; }},
        {"min_tokens is 5; allowed: at most max_tokens",
         [](auto& p) {
             p.min_tokens = 5;
             p.max_tokens = 4;
         }},
        {"flags is 128", [](auto& p) { p.flags = 128; }},
        {"stop_at_json needs a session with a tokenizer",
         [](auto& p) { p.flags = CROUPIER_STOP_AT_JSON; }},
        {"loop_max_period is 257; allowed: 0 to 256",
         [](auto& p) {
             p.loop_max_period = 257;
             p.loop_count = 2;
         }},
        {"loop_count is 1; allowed: 2 to 255 with loop_max_period, or 0",
         [](auto& p) {
             p.loop_max_period = 3;
             p.loop_count = 1;
         }},
        {"loop_count is 17; allowed: up to 4096 / loop_max_period",
         [](auto& p) {
             p.loop_max_period = 256;
             p.loop_count = 17;
         }},
        {"loop_min_period is 2; allowed: 0 to 256, at most loop_max_period",
         [](auto& p) {
             p.loop_max_period = 1;
             p.loop_min_period = 2;
             p.loop_count = 2;
         }},
        {"dynatemp_range is -1; allowed: 0 to 100", [](auto& p) { p.dynatemp_range = -1.0; }},
        {"dynatemp_exponent is nan", [=](auto& p) { p.dynatemp_exponent = nan; }},
        {"top_n_sigma is -2; allowed: -1 to 100", [](auto& p) { p.top_n_sigma = -2.0; }},
        {"typical_p is 0; allowed: above 0, up to 1", [](auto& p) { p.typical_p = 0.0; }},
        {"xtc_probability is 1.5; allowed: 0 to 1", [](auto& p) { p.xtc_probability = 1.5; }},
        {"xtc_threshold is -1; allowed: 0 to 1", [](auto& p) { p.xtc_threshold = -1.0; }},
        {"dry_multiplier is nan", [=](auto& p) { p.dry_multiplier = nan; }},
        {"dry_base is 0.5; allowed: 1 to 100", [](auto& p) { p.dry_base = 0.5; }},
        {"dry_allowed_length is 0; allowed: at least 1", [](auto& p) { p.dry_allowed_length = 0; }},
        {"dry_penalty_last_n is -2; allowed: at least 0, or -1", [](auto& p) { p.dry_penalty_last_n = -2; }},
        {"penalty_last_n is -2; allowed: at least 0, or -1", [](auto& p) { p.penalty_last_n = -2; }},
        {"mirostat is 3; allowed: 0, 1 or 2", [](auto& p) { p.mirostat = 3; }},
        {"mirostat_tau is -1; allowed: 0 to 100", [](auto& p) { p.mirostat_tau = -1.0; }},
        {"mirostat_eta is 2; allowed: 0 to 1", [](auto& p) { p.mirostat_eta = 2.0; }},
        {"adaptive_target is 1.5; allowed: 0 to 1, or -1", [](auto& p) { p.adaptive_target = 1.5; }},
        {"adaptive_decay is 1; allowed: 0 to 0.99", [](auto& p) { p.adaptive_decay = 1.0; }},
        {"adaptive_target is 0.5; allowed: -1 (off) when mirostat is on",
         [](auto& p) {
             p.mirostat = 1;
             p.adaptive_target = 0.5;
         }},
        {"child is 1024; allowed: 0 to 1023", [](auto& p) { p.child = 1024; }},
        {"child is 1; allowed: 0 with rng sglang or vllm",
         [](auto& p) {
             p.child = 1;
             p.rng = CROUPIER_RNG_VLLM;
         }},
        {"rng is 4; allowed: race, shvs, sglang or vllm", [](auto& p) { p.rng = 4; }},
        {"logprob_mode is 2; allowed: raw or processed", [](auto& p) { p.logprob_mode = 2; }},
        {"order is " + std::to_string(kFirstUnknownStep) + "; allowed: each step at most once",
         [](auto& p) { p.order[0] = kFirstUnknownStep; }},
        {"order is 6; allowed: each step at most once",
         [](auto& p) { p.order[0] = p.order[1] = CROUPIER_ORDER_TOP_K; }},
    }));
    croupier_sequence sequence = sound_sequence();
    client::Params params;
    bad.spoil(params);
    sequence.params = &params;
    const auto result = client::check_sequence(sequence, geometry());
    REQUIRE_FALSE(result);
    CHECK(result.error().code == shm::Errc::bad_argument);
    CHECK_THAT(result.error().message, Contains("sequence 7") && Contains(bad.field));
}

TEST_CASE("the ends of the ranges are admitted") {
    croupier_sequence sequence = sound_sequence();
    client::Params params;
    sequence.params = &params;
    SECTION("low") {
        params.seed = 0;
        params.temperature = 0.0;
        params.top_p = 1e-9;
        params.repetition_penalty = 0.01;
        params.frequency_penalty = params.presence_penalty = -2.0;
        params.dynatemp_exponent = 0.0;
        params.typical_p = 1e-9;
        params.xtc_threshold = 0.0;
        params.dry_base = 1.0;
        params.mirostat_tau = params.mirostat_eta = 0.0;
        params.adaptive_target = params.adaptive_decay = 0.0;
        params.top_k = -1;
        params.dry_allowed_length = 1;
    }
    SECTION("high") {
        params.seed = ~0ULL;
        params.temperature = 100.0;
        params.min_p = 1.0;
        params.repetition_penalty = 100.0;
        params.frequency_penalty = params.presence_penalty = 2.0;
        params.dynatemp_range = params.dynatemp_exponent = params.top_n_sigma = 100.0;
        params.xtc_probability = params.xtc_threshold = 1.0;
        params.dry_multiplier = params.dry_base = params.mirostat_tau = 100.0;
        params.mirostat_eta = 1.0;
        params.adaptive_decay = 0.99;
        params.top_k = params.penalty_last_n = params.dry_penalty_last_n = params.dry_allowed_length = 1
                                                                                                       << 30;
        params.eos_token_id = 999;
        params.min_tokens = params.max_tokens = 9;
        params.flags =
            CROUPIER_IGNORE_EOS | CROUPIER_NO_LOGPROB | CROUPIER_STOPS_ONLY_BAN | CROUPIER_RANK_COUNTS_TIES;
        params.mirostat = 2;
        params.rng = CROUPIER_RNG_VLLM;
        params.logprob_mode = CROUPIER_LOGPROB_PROCESSED;
        for (std::uint8_t step = 1; step < kFirstUnknownStep; ++step) params.order[step - 1] = step;
    }
    SECTION("the last child") {
        params.child = 1023;
        params.rng = CROUPIER_RNG_SHVS;
    }
    CHECK(client::check_sequence(sequence, geometry()));
}

TEST_CASE("an id outside the vocabulary is refused with its list and index") {
    const std::int32_t ids[] = {0, 999, 1000};
    const std::int32_t negative[] = {-1};
    croupier_sequence sequence = sound_sequence();
    std::string wanted;
    SECTION("prompt") {
        sequence.prompt = ids;
        sequence.prompt_count = 3;
        wanted = "prompt[2] is 1000; allowed: 0 to 999";
    }
    SECTION("output") {
        sequence.output = negative;
        sequence.output_count = 1;
        wanted = "output[0] is -1; allowed: 0 to 999";
    }
    SECTION("stop ids") {
        sequence.stop_ids = ids;
        sequence.stop_count = 3;
        wanted = "stop_ids[2] is 1000";
    }
    SECTION("allowed ids") {
        sequence.allowed_ids = ids;
        sequence.allowed_count = 3;
        wanted = "allowed_ids[2] is 1000; allowed: 0 to 999";
    }
    SECTION("a null list") {
        sequence.prompt_count = 3;
        wanted = "prompt is null, but its count is 3";
    }
    SECTION("a count that no list has") {
        sequence.prompt = ids;
        sequence.prompt_count = SIZE_MAX;
        wanted = "the count of prompt is 18446744073709551615; allowed: up to 2097152";
    }
    SECTION("a count that no list of lists has") {
        sequence.bad_words = ids;
        sequence.bad_words_count = SIZE_MAX;
        wanted = "the count of bad_words is 18446744073709551615";
    }
    const auto result = client::check_sequence(sequence, geometry());
    REQUIRE_FALSE(result);
    CHECK_THAT(result.error().message, Contains(wanted));
}

TEST_CASE("a malformed list of lists is refused, naming the wrong word") {
    const auto [words, fault] = GENERATE(table<std::vector<std::int32_t>, std::string>({
        {{2, 5, 999}, ""},
        {{1, 5, 3, 6, 7, 8}, ""},
        {{0}, "[0] is 0, the length of a list, and 0 words follow"},
        {{1, 5, -1, 6}, "[2] is -1, the length of a list, and 1 words follow; allowed: at least 1"},
        {{1, 5, 3, 6, 7},
         "[2] is 3, the length of a list, and 2 words follow; allowed: at least 1, and no more"},
        {{2147483647, 5}, "[0] is 2147483647, the length of a list"},
        {{2, 5, 1000}, "[2] is 1000; allowed: 0 to 999"},
        {{1, 5, 2, -1, 6}, "[3] is -1; allowed: 0 to 999"},
    }));
    for (const bool breakers : {false, true}) {
        croupier_sequence sequence = sound_sequence();
        (breakers ? sequence.dry_breakers : sequence.bad_words) = words.data();
        (breakers ? sequence.dry_breakers_count : sequence.bad_words_count) = words.size();
        const auto result = client::check_sequence(sequence, geometry());
        const std::string name = breakers ? "dry_breakers" : "bad_words";
        INFO(name << ": " << fault);
        REQUIRE(static_cast<bool>(result) == fault.empty());
        if (!result)
            CHECK_THAT(result.error().message,
                       Contains(std::string("sequence 7: ").append(name).append(fault)));
    }
    croupier_sequence sequence = sound_sequence();
    sequence.bad_words_count = 2;
    CHECK_THAT(client::check_sequence(sequence, geometry()).error().message,
               Contains("bad_words is null, but its count is 2"));
}

TEST_CASE("a bias is finite and at most 100 either way, for a token of the vocabulary") {
    const float infinite = std::numeric_limits<float>::infinity();
    const auto [bias, wanted] = GENERATE_COPY(table<croupier_bias, std::string>({
        {{5, 100.5F}, "bias[1].bias is 100.5; allowed: -100 to 100"},
        {{5, -infinite}, "bias[1].bias is -inf"},
        {{5, std::nanf("")}, "bias[1].bias is nan"},
        {{1000, 1.0F}, "bias[1].token is 1000; allowed: 0 to 999"},
    }));
    const croupier_bias list[] = {{999, -100.0F}, bias};
    croupier_sequence sequence = sound_sequence();
    sequence.bias = list;
    sequence.bias_count = 1;
    REQUIRE(client::check_sequence(sequence, geometry()));
    sequence.bias_count = 2;
    const auto result = client::check_sequence(sequence, geometry());
    REQUIRE_FALSE(result);
    CHECK_THAT(result.error().message, Contains(wanted));
}

TEST_CASE("a request for rng shvs is refused in a session of the transport lean, with the remedy") {
    client::Params params;
    params.rng = CROUPIER_RNG_SHVS;
    croupier_sequence sequence = sound_sequence();
    sequence.params = &params;
    CHECK(client::check_sequence(sequence, geometry()));
    proto::Geometry lean = geometry();
    lean.lean_blocks = 128;
    CHECK_THAT(client::check_sequence(sequence, lean).error().message,
               Contains("rng is shvs") && Contains("open it with the transport rows"));
}
