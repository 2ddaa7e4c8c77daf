#include "sampler/reference/checks.h"

#include <algorithm>
#include <cmath>

#include "proto/param_ranges.h"
#include "sampler/reference/left.h"

namespace croupier::sampler::reference {
namespace {

using proto::DecisionError;
using proto::token_in_range;

bool all_inside(std::span<const std::int32_t> tokens, std::uint32_t vocab) {
    return std::all_of(tokens.begin(), tokens.end(),
                       [vocab](std::int32_t token) { return token_in_range(token, vocab); });
}

DecisionError bias_fault(std::span<const proto::TokenBias> biases, std::uint32_t vocab) {
    if (biases.size() > proto::kMaxBias) return DecisionError::bad_record;
    for (const proto::TokenBias& each : biases) {
        if (!proto::bias_in_range(each.bias)) return DecisionError::bad_parameter;
        if (!token_in_range(each.token, vocab)) return DecisionError::bad_token;
    }
    return DecisionError::none;
}

DecisionError lists_fault(TokenLists lists, std::uint32_t vocab) {
    while (!lists.empty()) {
        if (lists[0] < 1) return DecisionError::bad_record;
        const auto length = static_cast<std::size_t>(lists[0]);
        if (length > lists.size() - 1) return DecisionError::bad_record;
        if (!all_inside(lists.subspan(1, length), vocab)) return DecisionError::bad_token;
        lists = lists.subspan(1 + length);
    }
    return DecisionError::none;
}

}  // namespace

DecisionError request_fault(const RowView& view, const Request& request) {
    const proto::SamplingParams& params = *request.params;
    if (!view_is_consistent(view)) return DecisionError::bad_record;
    if (proto::param_fault(params)) return DecisionError::bad_parameter;
    if (request.prompt.size() + request.output.size() >= request.max_length) {
        return DecisionError::sequence_full;
    }
    if (!request.mask.empty() && request.mask.size() < (std::size_t{view.vocab} + 31) / 32) {
        return DecisionError::bad_mask;
    }
    const bool eos_inside = params.eos_token_id < 0 || token_in_range(params.eos_token_id, view.vocab);
    if (!eos_inside || !all_inside(request.stop_ids, view.vocab) || !all_inside(request.prompt, view.vocab) ||
        !all_inside(request.output, view.vocab)) {
        return DecisionError::bad_token;
    }
    const DecisionError biases = bias_fault(request.bias, view.vocab);
    if (biases != DecisionError::none) return biases;
    if (!all_inside(request.allowed_ids, view.vocab)) return DecisionError::bad_token;
    const DecisionError words = lists_fault(request.bad_words, view.vocab);
    if (words != DecisionError::none) return words;
    const DecisionError breakers = lists_fault(request.dry_breakers, view.vocab);
    if (breakers != DecisionError::none) return breakers;
    const bool feedback_is_number =
        !std::isnan(request.feedback.level) && !std::isnan(request.feedback.weight);
    return feedback_is_number ? DecisionError::none : DecisionError::bad_record;
}

}  // namespace croupier::sampler::reference
