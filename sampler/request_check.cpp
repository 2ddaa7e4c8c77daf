#include "sampler/request_check.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "proto/param_ranges.h"

namespace croupier::sampler {
namespace {

using proto::DecisionError;

bool all_inside(std::span<const std::int32_t> tokens, std::uint32_t vocab) {
    std::uint32_t outside = 0;
    for (const std::int32_t token : tokens) outside |= static_cast<std::uint32_t>(token) >= vocab ? 1U : 0U;
    return outside == 0;
}

DecisionError bias_fault(std::span<const proto::TokenBias> bias, std::uint32_t vocab) {
    if (bias.size() > proto::kMaxBias) return DecisionError::bad_record;
    for (const proto::TokenBias& each : bias) {
        if (!proto::bias_in_range(each.bias)) return DecisionError::bad_parameter;
        if (static_cast<std::uint32_t>(each.token) >= vocab) return DecisionError::bad_token;
    }
    return DecisionError::none;
}

DecisionError lists_fault(TokenLists lists, std::uint32_t vocab) {
    while (!lists.empty()) {
        const std::int32_t length = lists.front();
        if (length < 1 || static_cast<std::size_t>(length) >= lists.size()) return DecisionError::bad_record;
        const auto size = static_cast<std::size_t>(length);
        if (!all_inside(lists.subspan(1, size), vocab)) return DecisionError::bad_token;
        lists = lists.subspan(1 + size);
    }
    return DecisionError::none;
}

}  // namespace

DecisionError request_fault(const RowView& view, const proto::SamplingParams& params, const Request& request,
                            SequenceState& state) noexcept {
    if (!view_is_consistent(view)) return DecisionError::bad_record;
    if (proto::param_fault(params)) return DecisionError::bad_parameter;
    if (request.prompt.size() + request.output.size() >= request.max_length)
        return DecisionError::sequence_full;
    if (!request.mask.empty() && request.mask.size() < (std::size_t{view.vocab} + 31) / 32) {
        return DecisionError::bad_mask;
    }
    const bool eos_inside =
        params.eos_token_id < 0 || static_cast<std::uint32_t>(params.eos_token_id) < view.vocab;
    if (!eos_inside || !all_inside(request.stop_ids, view.vocab) ||
        !state.follow(request.prompt, request.output)) {
        return DecisionError::bad_token;
    }
    const DecisionError bias = bias_fault(request.bias, view.vocab);
    if (bias != DecisionError::none) return bias;
    if (!all_inside(request.allowed_ids, view.vocab)) return DecisionError::bad_token;
    const DecisionError words = lists_fault(request.bad_words, view.vocab);
    if (words != DecisionError::none) return words;
    const DecisionError breakers = lists_fault(request.dry_breakers, view.vocab);
    if (breakers != DecisionError::none) return breakers;
    const bool feedback_is_number =
        !std::isnan(request.feedback.level) && !std::isnan(request.feedback.weight);
    return feedback_is_number ? DecisionError::none : DecisionError::bad_record;
}

}  // namespace croupier::sampler
