#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "client/abi_fields.h"
#include "client/admission.h"
#include "client/decision_text.h"
#include "client/known_structs.h"
#include "croupier/decide.h"
#include "in_process/decider.h"
#include "proto/geometry.h"
#include "shm/c_abi.h"
#include "shm/caller_struct.h"

namespace client = croupier::client;
namespace proto = croupier::proto;
namespace sampler = croupier::sampler;
namespace shm = croupier::shm;
using croupier::in_process::Decider;
using shm::guarded;
using shm::missing;

struct croupier_decider {
    Decider decider;
};

static_assert(sizeof(croupier_logprob) == sizeof(sampler::RankedLogprob) &&
              offsetof(croupier_logprob, logprob) == offsetof(sampler::RankedLogprob, logprob) &&
              offsetof(croupier_logprob, rank) == offsetof(sampler::RankedLogprob, rank));
static_assert(sizeof(croupier_survivor) == sizeof(sampler::Survivor) &&
              offsetof(croupier_survivor, probability) == offsetof(sampler::Survivor, probability));

namespace {

// Each struct's size in the first headers that are kept (tests/abi).
constexpr std::size_t kOptionsAtFirst = 16;
constexpr std::size_t kRowAtFirst = 48;
constexpr std::size_t kAnswerAtFirst = 88;

shm::Result<croupier_decider_options> checked(const croupier_decider_options& given) {
    auto options = shm::read_struct(given, "croupier_decider_options", kOptionsAtFirst);
    if (!options) return options;
    const auto within = [](const char* name, std::uint32_t value, std::uint32_t most) -> shm::Result<bool> {
        if (value >= 1 && value <= most) return true;
        return shm::fail(shm::Errc::bad_argument, std::string(name) + " is " + std::to_string(value) +
                                                      ", allowed: 1 to " + std::to_string(most));
    };
    CROUPIER_TRY(within("vocab", options.value().vocab, proto::kMaxVocab));
    CROUPIER_TRY(within("max_length", options.value().max_length, proto::kMaxLength));
    return options;
}

shm::Result<croupier_row> checked(const croupier_row& given) {
    auto row = shm::read_struct(given, "croupier_row", kRowAtFirst);
    if (!row) return row;
    if (row.value().logits == nullptr) return missing("row->logits").error();
    if (row.value().dtype == CROUPIER_DTYPE_UNSET) {
        return shm::fail(
            shm::Errc::bad_argument,
            "row->dtype is not set: CROUPIER_BF16, CROUPIER_FP16 or CROUPIER_FP32 would be right");
    }
    if (row.value().dtype > CROUPIER_FP32) {
        return shm::fail(shm::Errc::bad_argument, "row->dtype is " + std::to_string(row.value().dtype) +
                                                      ", allowed: bf16, fp16 or fp32 (0 to 2)");
    }
    const double level = row.value().feedback_level;
    const double weight = row.value().feedback_weight;
    if (!std::isfinite(level) || !std::isfinite(weight) || weight < 0) {
        return shm::fail(shm::Errc::bad_argument,
                         "row->feedback_level is " + std::to_string(level) + " and row->feedback_weight " +
                             std::to_string(weight) +
                             ", allowed: what the decision before answered, or 0 and 0 for a new sequence");
    }
    return row;
}

sampler::Request request_of(const client::Admitted& admitted, const croupier_row& row, std::uint32_t vocab) {
    const shm::NewSequence& sequence = admitted.sequence;
    sampler::Request request;
    request.params = &sequence.params;
    request.bias = admitted.bias;
    request.stop_ids = sequence.stop_ids;
    request.allowed_ids = sequence.allowed_ids;
    request.bad_words = sequence.bad_words;
    request.dry_breakers = sequence.dry_breakers;
    request.prompt = sequence.prompt;
    request.output = sequence.output;
    if (row.mask != nullptr) request.mask = {row.mask, (std::size_t{vocab} + 31) / 32};
    request.feedback = {row.feedback_level, row.feedback_weight};
    request.wants_support = row.wants_support != 0;
    return request;
}

croupier_answer answer_of(const proto::Decision& decision, const sampler::Answer& beside) {
    croupier_answer answer{};
    answer.token = decision.token;
    answer.logprob = decision.logprob;
    answer.output_index = decision.position;
    answer.flags = decision.flags;
    answer.error = static_cast<std::uint16_t>(decision.error);
    answer.feedback_level = beside.feedback.level;
    answer.feedback_weight = beside.feedback.weight;
    // The first one is the drawn token's own.
    if (!beside.logprobs.empty()) {
        answer.rank = beside.logprobs[0].rank;
        answer.best = reinterpret_cast<const croupier_logprob*>(beside.logprobs.data() + 1);
        answer.best_count = beside.logprobs.size() - 1;
    }
    if (!beside.support.empty()) {
        answer.support = reinterpret_cast<const croupier_survivor*>(beside.support.data());
        answer.support_count = beside.support.size();
    }
    answer.support_total = beside.support_total;
    if (answer.support_total > answer.support_count) answer.flags |= CROUPIER_SUPPORT_CUT;
    return answer;
}

shm::Result<int> decide(Decider& decider, const croupier_row& given, const croupier_sequence& asked,
                        croupier_answer& answer) {
    CROUPIER_TRY_VALUE(row, checked(given));
    CROUPIER_TRY_VALUE(known, client::known_sequence(asked));
    proto::Geometry geometry;
    geometry.vocab = decider.vocab();
    CROUPIER_TRY_VALUE(admitted, client::check_sequence(known.linked(), geometry));
    const auto request = request_of(admitted, row, decider.vocab());
    const auto dtype = static_cast<proto::Dtype>(row.dtype);
    const proto::Decision decision = decider.decide(row.logits, dtype, request);
    const croupier_answer ours = answer_of(decision, decider.answer());
    CROUPIER_TRY(shm::write_struct(ours, answer, "croupier_answer", kAnswerAtFirst));
    return 0;
}

}  // namespace

extern "C" {

const char* croupier_decide_version(void) {
    return CROUPIER_VERSION;
}

int croupier_decider_open(const croupier_decider_options* options, croupier_decider** decider,
                          croupier_error* error) {
    return guarded(error, [&]() -> shm::Result<int> {
        if (options == nullptr) return missing("options");
        if (decider == nullptr) return missing("decider");
        CROUPIER_TRY_VALUE(asked, checked(*options));
        *decider = new croupier_decider{Decider(asked.vocab, asked.max_length)};
        return 0;
    });
}

void croupier_decider_close(croupier_decider* decider) {
    delete decider;
}

int croupier_decide(croupier_decider* decider, const croupier_row* row, const croupier_sequence* sequence,
                    croupier_answer* answer, croupier_error* error) {
    return guarded(error, [&]() -> shm::Result<int> {
        if (decider == nullptr) return missing("decider");
        if (row == nullptr) return missing("row");
        if (sequence == nullptr) return missing("sequence");
        if (answer == nullptr) return missing("answer");
        return decide(decider->decider, *row, *sequence, *answer);
    });
}

const char* croupier_decide_error_name(uint32_t code) {
    return shm::errc_name(static_cast<shm::Errc>(code));
}

const char* croupier_decide_decision_error_text(uint16_t error) {
    return client::decision_error_text(error);
}

}  // extern "C"
