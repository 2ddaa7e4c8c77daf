// What a decision answers: plain types, shared by every folder.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

namespace croupier::proto {

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
    rejected,         // of a window: the row was computed from another token than was decided before it
    bad_input,        // the head of a window was fed another token than its sequence's last
    count_
};

inline constexpr std::array kDecisionErrorNames = {
    "none",         "nan_logit",    "infinite_logit", "no_token_left", "bad_parameter", "bad_token",
    "bad_sequence", "bad_position", "bad_mask",       "sequence_full", "bad_record",    "sampler_crashed",
    "given_up",     "voided",       "no_memory",      "rejected",      "bad_input"};
static_assert(kDecisionErrorNames.size() == static_cast<std::size_t>(DecisionError::count_));

enum DecisionFlags : std::uint16_t {
    kStoppedByEos = 1U << 0U,
    kStoppedByToken = 1U << 1U,
    kStoppedByLength = 1U << 2U,  // max_tokens, or the session's longest sequence
    kGreedy = 1U << 3U,
    kTruncated = 1U << 4U,
    kSupportCut = 1U << 5U,       // never of a decision in a ring or a message: the libraries say it
    kStoppedByString = 1U << 6U,  // which, and where, follows from the log and the tokens' bytes
    kStoppedByLoop = 1U << 7U,
    kStoppedByJson = 1U << 8U,  // where its value begins and ends follows likewise
};
constexpr std::uint16_t kStoppedMask =
    kStoppedByEos | kStoppedByToken | kStoppedByLength | kStoppedByString | kStoppedByLoop | kStoppedByJson;

struct Decision {
    std::uint64_t sequence_uid = 0;
    std::int32_t token = -1;
    float logprob = 0.0F;  // raw log-softmax of the drawn token; NaN with kNoLogprob
    std::uint32_t position = 0;
    std::uint16_t flags = 0;
    DecisionError error = DecisionError::none;
};
static_assert(sizeof(Decision) == 24 && std::is_trivially_copyable_v<Decision>);

// Such a column has no token, and neither has any behind it.
constexpr bool is_failure(DecisionError error) {
    return error != DecisionError::none && error != DecisionError::rejected;
}
// What is in flight of its sequence behind it is void.
constexpr bool ends_sequence(const Decision& decision) {
    return is_failure(decision.error) || (decision.flags & kStoppedMask) != 0;
}

}  // namespace croupier::proto
