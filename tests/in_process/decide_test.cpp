// The decision as a library call answers what the reference answers, whatever was decided before it.
#include "croupier/decide.h"

#include <dlfcn.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>

#include "case_generator.h"
#include "client/abi_fields.h"
#include "proto/logit_codes.h"
#include "sampler/reference/decide.h"
#include "testing/agreement.h"

using namespace croupier;
using namespace croupier::sampler;
using namespace croupier::sampler::test;
using Catch::Contains;

namespace {

using Library = std::unique_ptr<croupier_decider, void (*)(croupier_decider*)>;

Library open(std::uint32_t vocab, std::uint32_t max_length) {
    croupier_decider_options options;
    croupier_decider_options_init(&options);
    options.vocab = vocab;
    options.max_length = max_length;
    croupier_decider* decider = nullptr;
    croupier_error error{};
    INFO(error.text);
    REQUIRE(croupier_decider_open(&options, &decider, &error) == 0);
    return {decider, croupier_decider_close};
}

// As an engine lays its row: by id, in the dtype's bits, in memory that ends where the row ends.
struct PlainRow {
    PlainRow(const std::vector<float>& logits, proto::Dtype dtype)
        : bytes(new std::byte[logits.size() * proto::element_bytes(dtype)]) {
        for (std::size_t id = 0; id < logits.size(); ++id) {
            if (dtype == proto::Dtype::fp32) {
                std::memcpy(&bytes[id * 4], &logits[id], 4);
                continue;
            }
            const std::uint16_t bits = bits_of(logits[id], dtype);
            std::memcpy(&bytes[id * 2], &bits, 2);
        }
    }
    static std::uint16_t bits_of(float value, proto::Dtype dtype) {
        if (dtype == proto::Dtype::bf16) {
            std::uint32_t wide = 0;
            std::memcpy(&wide, &value, 4);
            return static_cast<std::uint16_t>(wide >> 16U);
        }
        return proto::fp16_code(value);
    }
    std::unique_ptr<std::byte[]> bytes;
};

struct Asked {
    croupier_params params;
    croupier_sequence sequence;
    croupier_row row;
};

// What the ABI can say of a case.
void ask(const RandomCase& from, const PlainRow& row, Asked& asked) {
    asked.params = client::params_to_abi(from.params);
    croupier_sequence_init(&asked.sequence);
    asked.sequence.params = &asked.params;
    asked.sequence.prompt = from.prompt.data();
    asked.sequence.prompt_count = from.prompt.size();
    asked.sequence.output = from.output.data();
    asked.sequence.output_count = from.output.size();
    asked.sequence.bias = reinterpret_cast<const croupier_bias*>(from.bias.data());
    asked.sequence.bias_count = from.bias.size();
    asked.sequence.stop_ids = from.stop_ids.data();
    asked.sequence.stop_count = from.stop_ids.size();
    asked.sequence.allowed_ids = from.allowed_ids.data();
    asked.sequence.allowed_count = from.allowed_ids.size();
    asked.sequence.bad_words = from.bad_words.data();
    asked.sequence.bad_words_count = from.bad_words.size();
    asked.sequence.dry_breakers = from.breakers.data();
    asked.sequence.dry_breakers_count = from.breakers.size();
    croupier_row_init(&asked.row);
    asked.row.logits = row.bytes.get();
    asked.row.dtype = static_cast<std::uint32_t>(from.shape.dtype);
    asked.row.mask = from.mask.empty() ? nullptr : from.mask.data();
    asked.row.wants_support = from.request.wants_support ? 1 : 0;
    asked.row.feedback_level = from.request.feedback.level;
    asked.row.feedback_weight = from.request.feedback.weight;
}

// The answer as the sampler's own, so that one comparison judges both.
reference::Outcome outcome_of(const croupier_answer& answer) {
    reference::Outcome outcome;
    outcome.decision.token = answer.token;
    outcome.decision.logprob = answer.logprob;
    outcome.decision.position = answer.output_index;
    const bool cut = answer.support_total > answer.support_count;
    CHECK(((answer.flags & CROUPIER_SUPPORT_CUT) != 0) == cut);
    outcome.decision.flags = static_cast<std::uint16_t>(answer.flags & ~CROUPIER_SUPPORT_CUT);
    outcome.support_total = static_cast<std::uint32_t>(answer.support_total);
    outcome.decision.error = static_cast<proto::DecisionError>(answer.error);
    outcome.feedback = {answer.feedback_level, answer.feedback_weight};
    for (std::size_t i = 0; i < answer.support_count; ++i) {
        outcome.support.push_back({answer.support[i].token, 0, answer.support[i].probability});
    }
    if (answer.rank > 0) outcome.logprobs.push_back({answer.token, answer.logprob, answer.rank});
    for (std::size_t i = 0; i < answer.best_count; ++i) {
        outcome.logprobs.push_back({answer.best[i].token, answer.best[i].logprob, answer.best[i].rank});
    }
    return outcome;
}

std::string failure_of(croupier_decider* decider, const Asked& asked) {
    croupier_answer answer;
    croupier_answer_init(&answer);
    croupier_error error{};
    return croupier_decide(decider, &asked.row, &asked.sequence, &answer, &error) == 0 ? "" : error.text;
}

constexpr std::uint32_t kMaxLength = 4096;

}  // namespace

TEST_CASE("every mixture of controls is decided in-process as the reference decides it") {
    std::mt19937_64 generator(20261122);
    std::uint64_t compared = 0;
    for (std::uint32_t round = 0; round < 1500; ++round) {
        const auto any = static_cast<std::uint32_t>(generator() % 500);
        const std::uint32_t vocab = round % 3 == 0 ? 64 * (1 + round % 9) : 1 + any;
        RandomCase random_case;
        fill_case(random_case, vocab, generator);
        // A library's caller has one row in the order of the ids, and its own randoms.
        random_case.shape.shards.clear();
        random_case.shape.permuted = false;
        random_case.shape.tile = 64;
        random_case.shape.columns = 1;
        random_case.shape.column = 0;
        random_case.request.hot_blocks = {};
        random_case.request.prepared = {};
        random_case.request.max_length = kMaxLength;
        random_case.request.position_shift = 0;
        if (random_case.params.rng == proto::Rng::shvs) random_case.params.rng = proto::Rng::race;
        const RowFixture fixture(random_case.logits, random_case.shape, 1);
        const reference::Outcome expected = reference::decide(fixture.view(), random_case.request);
        const PlainRow row(random_case.logits, random_case.shape.dtype);
        Asked asked;
        ask(random_case, row, asked);
        const Library library = open(vocab, kMaxLength);
        // Twice: the second time on the state of the first.
        for (int again = 0; again < 2; ++again) {
            croupier_answer answer;
            croupier_answer_init(&answer);
            croupier_error error{};
            if (croupier_decide(library.get(), &asked.row, &asked.sequence, &answer, &error) != 0) {
                // What the library refuses before it looks at the row is refused with the reason.
                CHECK(error.code == CROUPIER_ERROR_BAD_ARGUMENT);
                CHECK(expected.decision.error != proto::DecisionError::none);
                break;
            }
            const std::string fault = difference(outcome_of(answer), expected, Logprobs::within_error);
            if (!fault.empty()) FAIL("case " << round << ": " << fault << "; " << describe(random_case));
            ++compared;
        }
    }
    CHECK(compared > 1500);
}

TEST_CASE("a decider that went from request to request decides as a new one does") {
    constexpr std::uint32_t kVocab = 300;
    std::mt19937_64 generator(7);
    const Library kept = open(kVocab, kMaxLength);
    std::vector<float> logits(kVocab);
    for (float& logit : logits) logit = static_cast<float>(generator() % 1000) / 300.0F;
    const PlainRow row(logits, proto::Dtype::fp32);
    // Prompts of one length that end alike, and outputs that grow, are cut and branch off.
    std::vector<std::vector<std::int32_t>> prompts(3, std::vector<std::int32_t>(64));
    for (auto& prompt : prompts) {
        std::iota(prompt.begin(), prompt.end(), 0);
        std::generate_n(prompt.begin(), 24, [&] { return static_cast<std::int32_t>(generator() % kVocab); });
    }
    std::vector<std::int32_t> output;
    for (int round = 0; round < 600; ++round) {
        if (generator() % 3 != 0) output.push_back(static_cast<std::int32_t>(generator() % 20));
        if (generator() % 5 == 0) output.resize(generator() % (output.size() + 1));
        if (generator() % 5 == 0 && !output.empty()) output[generator() % output.size()] = 3;
        Asked asked;
        RandomCase plain;
        plain.logits = logits;
        plain.params.repetition_penalty = 1.4;
        plain.params.frequency_penalty = 0.5;
        plain.params.dry_multiplier = generator() % 2 == 0 ? 0.8 : 0.0;
        plain.params.seed = generator() % 4;
        plain.params.logprobs = static_cast<std::uint32_t>(generator() % 3);
        plain.prompt = prompts[generator() % prompts.size()];
        plain.output = output;
        bind_request(plain);
        ask(plain, row, asked);
        const Library fresh = open(kVocab, kMaxLength);
        croupier_answer ours;
        croupier_answer theirs;
        croupier_answer_init(&ours);
        croupier_answer_init(&theirs);
        REQUIRE(croupier_decide(kept.get(), &asked.row, &asked.sequence, &ours, nullptr) == 0);
        REQUIRE(croupier_decide(fresh.get(), &asked.row, &asked.sequence, &theirs, nullptr) == 0);
        REQUIRE(ours.token == theirs.token);
        REQUIRE(ours.logprob == theirs.logprob);
    }
}

TEST_CASE("what is wrong with a call is said, and the decider goes on") {
    const Library library = open(100, 16);
    const PlainRow row(std::vector<float>(100, 1.0F), proto::Dtype::bf16);
    RandomCase plain;
    bind_request(plain);
    Asked asked;
    ask(plain, row, asked);
    const auto spoilt = [&](auto&& spoil) {
        Asked bad = asked;
        bad.sequence.params = &bad.params;
        spoil(bad);
        return failure_of(library.get(), bad);
    };
    CHECK_THAT(spoilt([](Asked& a) { a.row.logits = nullptr; }), Contains("row->logits is null"));
    CHECK_THAT(spoilt([](Asked& a) { a.row.dtype = 3; }), Contains("dtype is 3"));
    CHECK_THAT(spoilt([](Asked& a) { a.params.logprobs = 1025; }),
               Contains("logprobs is 1025; allowed: 0 to 1024"));
    CHECK_THAT(spoilt([](Asked& a) { a.params.top_p = 2; }), Contains("top_p is 2"));
    CHECK_THAT(spoilt([](Asked& a) { a.row.feedback_level = std::nan(""); }),
               Contains("feedback_level is nan"));
    CHECK_THAT(spoilt([](Asked& a) { a.row.feedback_weight = -1; }), Contains("feedback_weight -1"));
    CHECK_THAT(spoilt([](Asked& a) { a.row.size = 8; }), Contains("croupier_row_init"));
    CHECK_THAT(spoilt([](Asked& a) { croupier_row_init(&a.row), a.row.logits = &a; }),
               Contains("row->dtype is not set"));
    CHECK_THAT(spoilt([](Asked& a) { a.sequence.version = 2U << 16U; }), Contains("has ABI 2.0"));
    const std::int32_t outside = 100;
    CHECK_THAT(spoilt([&](Asked& a) {
                   a.sequence.prompt = &outside;
                   a.sequence.prompt_count = 1;
               }),
               Contains("prompt[0] is 100; allowed: 0 to 99"));
    const std::vector<std::int32_t> full(16, 1);
    Asked long_one = asked;
    long_one.sequence.params = &long_one.params;
    long_one.sequence.prompt = full.data();
    long_one.sequence.prompt_count = full.size();
    croupier_answer answer;
    croupier_answer_init(&answer);
    REQUIRE(croupier_decide(library.get(), &long_one.row, &long_one.sequence, &answer, nullptr) == 0);
    CHECK(answer.error == CROUPIER_DECISION_SEQUENCE_FULL);
    CHECK(answer.token == -1);
    CHECK(failure_of(library.get(), asked).empty());
    croupier_decider_options options;
    croupier_decider_options_init(&options);
    croupier_decider* none = nullptr;
    croupier_error error{};
    CHECK(croupier_decider_open(&options, &none, &error) == -1);
    CHECK_THAT(error.text, Contains("vocab is 0, allowed: 1 to 1048576"));
}

TEST_CASE("libcroupier_decide.so gives every function of the C ABI and keeps its C++ to itself") {
    const std::unique_ptr<void, int (*)(void*)> library(::dlopen(LIBCROUPIER_DECIDE, RTLD_NOW | RTLD_LOCAL),
                                                        ::dlclose);
    REQUIRE(library != nullptr);
    for (const char* name :
         {"croupier_decide_version", "croupier_decider_open", "croupier_decider_close", "croupier_decide",
          "croupier_decide_error_name", "croupier_decide_decision_error_text"}) {
        INFO(name);
        CHECK(::dlsym(library.get(), name) != nullptr);
    }
    CHECK(::dlsym(library.get(), "_ZN8croupier3shm9errc_nameENS0_4ErrcE") == nullptr);
}
