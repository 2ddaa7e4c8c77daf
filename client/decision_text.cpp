#include "client/decision_text.h"

#include <array>
#include <cstddef>

#include "proto/decision.h"

namespace croupier::client {
namespace {

constexpr std::array kTexts = {
    "no error",
    "a logit of the row is NaN",
    "a logit of the row is +infinity",
    "no token is left: every one is masked, banned or -infinity",
    "a sampling parameter is outside its range",
    "a token id of the history, the biases, the stops or the lists is outside the vocabulary",
    "the column names a slot or uid that is no live sequence",
    "the column's position does not follow the sequence's log",
    "the column names a mask row that the session does not have",
    "the sequence has reached max_length",
    "the step's schedule record, or a list of the sequence, is malformed",
    "samplers died or stalled repeatedly while they decided this column",
    "the step was given up before this column was decided: its logits did not come",
    "the sequence ended, was truncated or was finished while this step was in flight",
    "the shared memory of the host has no room for the sequence's next token: finish other sequences, or "
    "give the host "
    "or the container more of it (--shm-size)",
    "the row was computed from another token than was decided before it, or was not computed",
    "the head of the window was fed another token than the last one of its sequence",
};
static_assert(kTexts.size() == static_cast<std::size_t>(proto::DecisionError::count_),
              "every decision error needs its text");

}  // namespace

const char* decision_error_text(std::uint16_t error) {
    return error < kTexts.size() ? kTexts[error] : "an error that this version of the client does not know";
}

}  // namespace croupier::client
