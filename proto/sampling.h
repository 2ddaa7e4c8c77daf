// What a request asks of a decision and what a decision answers: plain types, shared by every folder.
#pragma once

#include <cstdint>
#include <type_traits>

namespace croupier::proto {

enum class Dtype : std::uint32_t { bf16 = 0, fp16 = 1, fp32 = 2 };

constexpr std::uint32_t element_bytes(Dtype dtype) {
    return dtype == Dtype::fp32 ? 4U : 2U;
}

constexpr std::uint32_t kIgnoreEos = 1U << 0U;
// The decision's log-prob is NaN: it costs a pass over the row that a request without log-probs need not pay.
constexpr std::uint32_t kNoLogprob = 1U << 1U;

// Names and meanings are those of docs/semantics.md; ranges are in proto/param_ranges.cpp.
struct SamplingParams {
    std::uint64_t seed = 0;
    double temperature = 1.0;
    double top_p = 1.0;
    double min_p = 0.0;
    double repetition_penalty = 1.0;
    double frequency_penalty = 0.0;
    double presence_penalty = 0.0;
    std::int32_t top_k = 0;  // 0 or -1: off
    std::int32_t eos_token_id = -1;
    std::uint32_t min_tokens = 0;
    std::uint32_t max_tokens = 0;  // 0: bounded by the session's longest sequence only
    std::uint32_t flags = 0;
    std::uint32_t hot_size = 0;  // pinned at admission; 0: the whole vocabulary is hot
};
static_assert(sizeof(SamplingParams) == 80 && std::is_trivially_copyable_v<SamplingParams>,
              "SamplingParams crosses processes: bump kSegmentVersion when it changes");

struct TokenBias {
    std::int32_t token;
    float bias;
};
static_assert(sizeof(TokenBias) == 8);

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
    sampler_crashed,  // samplers died repeatedly while they decided this column
    count_
};

enum DecisionFlags : std::uint16_t {
    kStoppedByEos = 1U << 0U,
    kStoppedByToken = 1U << 1U,
    kStoppedByLength = 1U << 2U,  // max_tokens, or the session's longest sequence
    kGreedy = 1U << 3U,
    kTruncated = 1U << 4U,
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
