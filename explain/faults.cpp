#include "explain/faults.h"

#include <array>
#include <cmath>
#include <span>

#include "proto/decision.h"
#include "proto/param_ranges.h"
#include "proto/sampling.h"

namespace croupier::explain {
namespace {

using proto::DecisionError;

std::string bad_logit(const Row& row, bool (*bad)(double), const char* what) {
    for (std::uint32_t id = 0; id < row.vocab(); ++id) {
        if (!bad(row.logit(static_cast<std::int32_t>(id)))) continue;
        return "the logit of id " + std::to_string(id) + " is " + what + "; allowed: finite or -inf";
    }
    return std::string("a logit is ") + what;
}

std::string bad_parameter(const Params& params) {
    if (const auto fault = proto::param_fault(params.sampling)) return proto::describe(*fault);
    for (const proto::TokenBias& each : params.bias) {
        if (proto::bias_in_range(each.bias)) continue;
        return "logit_bias of id " + std::to_string(each.token) + " is " + shown(each.bias) +
               "; allowed: " + proto::kBiasRange;
    }
    return "a parameter is outside its range";
}

class OutsideId {
  public:
    explicit OutsideId(std::uint32_t vocab) : vocab_(vocab) {}

    void judge(const std::string& where, std::int32_t token) {
        if (!found_.empty() || proto::token_in_range(token, vocab_)) return;
        found_ = where + " is " + std::to_string(token) + "; this row has the ids 0 to " +
                 std::to_string(vocab_ - 1);
    }
    void judge_all(const std::string& where, std::span<const std::int32_t> tokens) {
        for (std::size_t i = 0; i < tokens.size() && found_.empty(); ++i) {
            judge(where + "[" + std::to_string(i) + "]", tokens[i]);
        }
    }
    void judge_lists(const std::string& where, std::span<const std::int32_t> lists) {
        for (std::size_t number = 0; !lists.empty(); ++number) {
            const auto length = static_cast<std::size_t>(lists.front());
            judge_all(where + "[" + std::to_string(number) + "]", lists.subspan(1, length));
            lists = lists.subspan(1 + length);
        }
    }
    std::string text() const { return found_.empty() ? "an id is outside the vocabulary" : found_; }

  private:
    std::uint32_t vocab_;
    std::string found_;
};

std::string bad_token(const Case& of) {
    OutsideId outside(of.row.vocab());
    outside.judge_all("prompt", of.prompt);
    outside.judge_all("output", of.output);
    if (of.params.sampling.eos_token_id >= 0)
        outside.judge("params.eos_token_id", of.params.sampling.eos_token_id);
    outside.judge_all("params.stop_token_ids", of.params.stop_ids);
    outside.judge_all("params.allowed_token_ids", of.params.allowed_ids);
    for (const proto::TokenBias& each : of.params.bias)
        outside.judge("an id of params.logit_bias", each.token);
    outside.judge_lists("params.bad_words", of.params.bad_words);
    outside.judge_lists("params.dry_sequence_breakers", of.params.dry_breakers);
    return outside.text();
}

std::string detail(DecisionError error, const Case& of) {
    switch (error) {
        case DecisionError::nan_logit:
            return bad_logit(
                of.row, [](double value) { return std::isnan(value); }, "NaN");
        case DecisionError::infinite_logit:
            return bad_logit(
                of.row, [](double value) { return std::isinf(value) && value > 0; },
                "+inf, given as such or by a number too large for its dtype");
        case DecisionError::no_token_left:
            return "every token is masked, banned or -inf; at least one must be left";
        case DecisionError::bad_parameter:
            return bad_parameter(of.params);
        case DecisionError::bad_token:
            return bad_token(of);
        case DecisionError::sequence_full:
            return "prompt and output have " + std::to_string(of.prompt.size() + of.output.size()) +
                   " ids; allowed: fewer than max_length, " + std::to_string(of.max_length);
        case DecisionError::bad_record:
            if (of.params.bias.size() > proto::kMaxBias) {
                return "params.logit_bias has " + std::to_string(of.params.bias.size()) +
                       " entries; allowed: up to " + std::to_string(proto::kMaxBias);
            }
            return "feedback.level is " + std::to_string(of.feedback.level) + " and feedback.weight " +
                   std::to_string(of.feedback.weight) + "; allowed: values returned by an earlier decision";
        default:
            return "the sampler refused the request";
    }
}

}  // namespace

std::string describe(DecisionError error, const Case& of) {
    const auto number = static_cast<std::size_t>(error);
    const std::string name = number < proto::kDecisionErrorNames.size() ? proto::kDecisionErrorNames[number]
                                                                        : std::to_string(number);
    return name + ": " + detail(error, of);
}

}  // namespace croupier::explain
