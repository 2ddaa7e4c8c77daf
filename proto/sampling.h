// What a request asks of a decision and what a decision answers: plain types, shared by every folder.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

namespace croupier::proto {

enum class Dtype : std::uint32_t { bf16 = 0, fp16 = 1, fp32 = 2 };
constexpr const char* name_of(Dtype dtype) {
    return dtype == Dtype::bf16 ? "bf16" : dtype == Dtype::fp16 ? "fp16" : "fp32";
}

constexpr std::uint32_t element_bytes(Dtype dtype) {
    return dtype == Dtype::fp32 ? 4U : 2U;
}

constexpr std::uint32_t kIgnoreEos = 1U << 0U;
// The decision's log-prob is NaN: it costs a pass over the row that a request without log-probs need not pay.
constexpr std::uint32_t kNoLogprob = 1U << 1U;
// EOS and stop ids are banned until min_tokens are out, and end nothing: the engine ends its sequences.
constexpr std::uint32_t kStopsOnlyBan = 1U << 2U;
// The drawn token's rank is the number of tokens at or above it, itself among them, as vLLM counts.
constexpr std::uint32_t kRankCountsTies = 1U << 3U;
constexpr std::uint32_t kAllFlags = kIgnoreEos | kNoLogprob | kStopsOnlyBan | kRankCountsTies;

// The steps that a request may put in an order of its own; the others have a fixed place.
enum class Step : std::uint8_t {
    end = 0,  // a list's end; a list that begins with it stands for the default order
    penalties,
    dry,
    top_n_sigma,
    temperature,
    min_p,
    top_k,
    top_p,
    typical_p,
    xtc,
    count_
};
constexpr std::uint32_t kOrderSteps = 12;  // of which the last is always `end`
using StepOrder = std::array<Step, kOrderSteps>;
constexpr StepOrder kDefaultOrder = {Step::penalties,   Step::dry,       Step::top_n_sigma,
                                     Step::temperature, Step::min_p,     Step::top_k,
                                     Step::top_p,       Step::typical_p, Step::xtc};

constexpr std::uint32_t kMaxLogprobs = 1024;
constexpr std::uint32_t kMaxSessionLogprobs = 64;  // of a session, whose segment has room for them
constexpr std::uint32_t kMaxSupport = 1U << 16U;   // of a request, and of a session, likewise

enum class Rng : std::uint8_t { race = 0, shvs, sglang, vllm, count_ };

// The children of one request share its seed and differ in this: it has a word of the random counter to
// itself.
constexpr std::uint32_t kMostChildren = 1024;

enum class LogprobMode : std::uint8_t { raw = 0, processed, count_ };

// Names and meanings are those of docs/semantics.md; each has a line in proto/sampling_fields.h.
struct SamplingParams {
    std::uint64_t seed = 0;
    double temperature = 1.0;
    double top_p = 1.0;
    double min_p = 0.0;
    double repetition_penalty = 1.0;
    double frequency_penalty = 0.0;
    double presence_penalty = 0.0;
    double dynatemp_range = 0.0;  // 0: off
    double dynatemp_exponent = 1.0;
    double top_n_sigma = -1.0;  // 0 or less: off
    double typical_p = 1.0;
    double xtc_probability = 0.0;
    double xtc_threshold = 0.1;
    double dry_multiplier = 0.0;  // 0: off
    double dry_base = 1.75;
    double mirostat_tau = 5.0;
    double mirostat_eta = 0.1;
    double adaptive_target = -1.0;  // below 0: off
    double adaptive_decay = 0.9;
    std::int32_t top_k = 0;  // 0 or -1: off
    std::int32_t eos_token_id = -1;
    std::uint32_t min_tokens = 0;
    std::uint32_t max_tokens = 0;  // 0: bounded by the session's longest sequence only
    std::uint32_t flags = 0;
    std::uint32_t child = 0;               // 0, or the number among a request's `n`
    std::int32_t penalty_last_n = -1;      // -1: prompt and output, each as its penalty says; 0: no penalties
    std::int32_t dry_penalty_last_n = -1;  // -1: the whole history; 0: off
    std::int32_t dry_allowed_length = 2;
    std::uint32_t logprobs = 0;  // how many of the best, beside the drawn token's own
    std::uint8_t mirostat = 0;   // 1 and 2: its versions
    Rng rng = Rng::race;
    LogprobMode logprob_mode = LogprobMode::raw;
    std::uint8_t reserved = 0;
    StepOrder order{};
    std::uint32_t support = 0;  // how many of the likeliest that were left to draw from are answered
    std::uint32_t reserved_too = 0;
};
static_assert(sizeof(SamplingParams) == 216 && std::is_trivially_copyable_v<SamplingParams>,
              "SamplingParams crosses processes: a new field stands at its end, and bumps kSegmentMinor");

// What mirostat and adaptive-p carry from one decision of a sequence to the next. It cannot be computed from
// the token log: it depends on rows that are gone.
struct Feedback {
    double level = 0.0;   // mirostat: mu; adaptive-p: the weighted sum of probabilities drawn
    double weight = 0.0;  // 0: nothing decided yet; mirostat: 1; adaptive-p: the sum of the weights
};
static_assert(sizeof(Feedback) == 16);

struct RankedLogprob {
    std::int32_t token;
    float logprob;
    std::uint32_t rank;  // 1 + the number of tokens strictly above
};
static_assert(sizeof(RankedLogprob) == 12);

// What a column's token was drawn from stands behind how many they are.
struct SupportHead {
    std::uint32_t count;
    std::uint32_t total;  // with those that are not answered
    std::uint64_t reserved;
};
struct Survivor {
    std::int32_t token;
    std::uint32_t reserved;
    double probability;
};
static_assert(sizeof(SupportHead) == 16 && sizeof(Survivor) == 16);

struct TokenBias {
    std::int32_t token;
    float bias;
};
static_assert(sizeof(TokenBias) == 8);
constexpr std::uint32_t kMaxBias = 4096;  // of a request

// Why a column has no token. Zero is success, so that a zeroed record never reads as a failure.
enum class DecisionError : std::uint16_t {
    none = 0,
    nan_logit,        // a NaN among the row's logits
    infinite_logit,   // +inf among the row's logits
    no_token_left,    // every token is masked, banned or -inf
    bad_parameter,    // a parameter outside its range
    bad_token,        // an id outside the vocabulary in the history, biases, stops or the draw
    bad_sequence,     // the column names a slot or uid that is not a live sequence
    bad_position,     // the column's position does not follow the sequence's log
    bad_mask,         // the column names a mask row that the session does not have
    sequence_full,    // the log has no room for another token
    bad_record,       // the step's schedule record itself is malformed
    sampler_crashed,  // samplers died or stalled repeatedly while they decided this column
    given_up,         // its logits did not come: the step was given up before the column was decided
    voided,           // the sequence ended, was truncated or finished while this column was in flight
    no_memory,        // the host's shared memory has no room for the sequence's next token
    count_
};

enum DecisionFlags : std::uint16_t {
    kStoppedByEos = 1U << 0U,
    kStoppedByToken = 1U << 1U,
    kStoppedByLength = 1U << 2U,  // max_tokens, or the session's longest sequence
    kGreedy = 1U << 3U,
    kTruncated = 1U << 4U,
    kSupportCut = 1U << 5U,  // never of a decision in a ring or a message: the libraries say it
};
constexpr std::uint16_t kStoppedMask = kStoppedByEos | kStoppedByToken | kStoppedByLength;

struct Decision {
    std::uint64_t sequence_uid = 0;
    std::int32_t token = -1;
    float logprob = 0.0F;  // raw log-softmax of the drawn token; NaN with kNoLogprob
    std::uint32_t position = 0;
    std::uint16_t flags = 0;
    DecisionError error = DecisionError::none;
};
static_assert(sizeof(Decision) == 24 && std::is_trivially_copyable_v<Decision>);

}  // namespace croupier::proto
