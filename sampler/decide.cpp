#include "sampler/decide.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>

#include "proto/param_ranges.h"
#include "sampler/adjust.h"
#include "sampler/blocks.h"
#include "sampler/history.h"
#include "sampler/params.h"
#include "sampler/row_reader.h"
#include "sampler/survivors.h"
#include "sampler/vocabulary_order.h"

namespace croupier::sampler {
namespace {

using proto::Decision;
using proto::DecisionError;
using proto::SamplingParams;

constexpr double kNothing = -std::numeric_limits<double>::infinity();
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

struct Choice {
    std::uint32_t token;
    std::uint32_t position;  // in vocabulary order
};

bool all_inside(std::span<const std::int32_t> tokens, std::uint32_t vocab) {
    std::uint32_t outside = 0;
    for (const std::int32_t token : tokens) outside |= static_cast<std::uint32_t>(token) >= vocab ? 1U : 0U;
    return outside == 0;
}

DecisionError bias_fault(std::span<const proto::TokenBias> bias, std::uint32_t vocab) {
    for (const proto::TokenBias& each : bias) {
        if (!proto::bias_in_range(each.bias)) return DecisionError::bad_parameter;
        if (static_cast<std::uint32_t>(each.token) >= vocab) return DecisionError::bad_token;
    }
    return DecisionError::none;
}

// Ids are checked here even where nothing will index by them, so that what is refused does not depend on
// which controls are on.
DecisionError request_fault(const RowView& view, const SamplingParams& params, const Request& request,
                            const Workspace& workspace) {
    if (!view_is_consistent(view) || view.vocab != workspace.vocab) return DecisionError::bad_record;
    if (proto::param_fault(params)) return DecisionError::bad_parameter;
    if (request.prompt.size() + request.output.size() >= request.max_length) {
        return DecisionError::sequence_full;
    }
    if (!request.mask.empty() && request.mask.size() < (std::size_t{view.vocab} + 31) / 32) {
        return DecisionError::bad_mask;
    }
    const bool eos_inside =
        params.eos_token_id < 0 || static_cast<std::uint32_t>(params.eos_token_id) < view.vocab;
    if (!eos_inside || !all_inside(request.stop_ids, view.vocab) || !all_inside(request.prompt, view.vocab) ||
        !all_inside(request.output, view.vocab)) {
        return DecisionError::bad_token;
    }
    return bias_fault(request.bias, view.vocab);
}

// Step 1, and the row that raw log-probs are of. A NaN or +inf is an error even where the mask hides it:
// a row that holds one comes from a broken forward pass.
DecisionError read_and_mask(const RowView& view, std::span<const std::uint32_t> mask,
                            const VocabularyOrder& order, Workspace& workspace) {
    switch (read_row(view, workspace.row)) {
        case RowFault::nan:
            return DecisionError::nan_logit;
        case RowFault::positive_infinity:
            return DecisionError::infinite_logit;
        case RowFault::none:
            break;
    }
    if (!mask.empty() && !apply_mask(mask, view.vocab, order, workspace.row)) return DecisionError::bad_token;
    return DecisionError::none;
}

bool has_penalties(const SamplingParams& params) {
    return params.repetition_penalty != 1.0 || params.frequency_penalty != 0.0 ||
           params.presence_penalty != 0.0;
}

bool apply_penalties(const SamplingParams& params, const Request& request, const VocabularyOrder& order,
                     Workspace& workspace) {
    const History history(request.prompt, request.output, order, workspace);
    if (!history.valid()) return false;
    if (params.repetition_penalty != 1.0) {
        apply_repetition_penalty(params.repetition_penalty, history, workspace.adjusted);
    }
    apply_frequency_penalty(params.frequency_penalty, history, workspace.adjusted);
    apply_presence_penalty(params.presence_penalty, history, workspace.adjusted);
    return true;
}

enum class Adjusted { no, yes, bad_token };

// Steps 4 to 8, in the page's order.
Adjusted adjust(const SamplingParams& params, const Request& request, const VocabularyOrder& order,
                Workspace& workspace) {
    const bool bans = request.output.size() < params.min_tokens;
    if (bans && !ban_stops(params.eos_token_id, request.stop_ids, order, workspace.adjusted)) {
        return Adjusted::bad_token;
    }
    if (!add_bias(request.bias, order, workspace.adjusted)) return Adjusted::bad_token;
    if (has_penalties(params) && !apply_penalties(params, request, order, workspace)) {
        return Adjusted::bad_token;
    }
    return bans || !request.bias.empty() || has_penalties(params) ? Adjusted::yes : Adjusted::no;
}

std::optional<Choice> choose_first_maximum(double maximum, const VocabularyOrder& order,
                                           const Workspace& workspace) {
    std::optional<Choice> first;
    for (std::uint32_t block = 0; block < workspace.blocks; ++block) {
        if (workspace.block_max[block] != maximum) continue;
        for (std::uint32_t position = block * kBlock; position < (block + 1) * kBlock; ++position) {
            if (workspace.adjusted[position] != maximum) continue;
            const auto token = order.token_at(position);
            if (!token) return std::nullopt;
            if (!first || *token < first->token) first = Choice{*token, position};
            if (order.is_identity()) return first;
        }
    }
    return first;
}

std::optional<Choice> draw_truncated(const SamplingParams& params, const Weigher& weigh, std::uint32_t random,
                                     const VocabularyOrder& order, Workspace& workspace) {
    const auto candidates = keep_min_p_and_top_k(params.min_p, params.top_k, weigh, order, workspace);
    if (!candidates) return std::nullopt;
    Classes classes = make_classes(*candidates, weigh, workspace);
    if (params.top_p < 1.0) classes = keep_top_p(classes, params.top_p, workspace);
    const Candidate& drawn = draw_survivor(classes, random, workspace);
    return Choice{drawn.token, drawn.position};
}

// `raw_mass`: not null if the row's raw masses are also those of the distribution that is drawn from.
std::optional<Choice> draw_untruncated(const Weigher& weigh, const double* raw_mass, std::uint32_t random,
                                       const VocabularyOrder& order, Workspace& workspace) {
    const double mass =
        raw_mass != nullptr ? *raw_mass : sum_block_masses(workspace.adjusted, weigh, workspace.block_mass);
    const double target = uniform_of(random) * mass;
    const std::uint32_t position = find_mass(workspace.adjusted, weigh, workspace.block_mass, target);
    const auto token = order.token_at(position);
    if (!token) return std::nullopt;
    return Choice{*token, position};
}

std::optional<Choice> choose(const SamplingParams& params, const Weigher& weigh, std::uint32_t random,
                             const double* raw_mass, const VocabularyOrder& order, Workspace& workspace) {
    if (is_greedy(params)) return choose_first_maximum(weigh.maximum, order, workspace);
    if (is_truncated(params)) return draw_truncated(params, weigh, random, order, workspace);
    return draw_untruncated(weigh, raw_mass, random, order, workspace);
}

std::uint16_t kind_flag(const SamplingParams& params) {
    if (is_greedy(params)) return proto::kGreedy;
    if (is_truncated(params)) return proto::kTruncated;
    return 0;
}

bool contains(std::span<const std::int32_t> tokens, std::int32_t token) {
    return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

std::uint16_t stop_flag(const SamplingParams& params, const Request& request, std::int32_t token) {
    const bool ignores_eos = (params.flags & proto::kIgnoreEos) != 0;
    if (!ignores_eos && token == params.eos_token_id) return proto::kStoppedByEos;
    if (contains(request.stop_ids, token)) return proto::kStoppedByToken;
    const std::size_t outputs = request.output.size() + 1;
    const bool enough = params.max_tokens > 0 && outputs >= params.max_tokens;
    const bool full = request.prompt.size() + outputs >= request.max_length;
    if (enough || full) return proto::kStoppedByLength;
    return 0;
}

Decision failed(Decision decision, DecisionError error) {
    decision.error = error;
    return decision;
}

}  // namespace

Decision decide(const RowView& view, const Request& request, Workspace& workspace) noexcept {
    // A copy: what was checked must be what is used, and the original lies in shared memory.
    const SamplingParams params = *request.params;
    Decision decision;
    decision.position = static_cast<std::uint32_t>(request.output.size());
    const DecisionError fault = request_fault(view, params, request, workspace);
    if (fault != DecisionError::none) return failed(decision, fault);

    const VocabularyOrder order(view, workspace.positions);
    const DecisionError row_fault = read_and_mask(view, request.mask, order, workspace);
    if (row_fault != DecisionError::none) return failed(decision, row_fault);
    const Weigher raw = {widen_blocks(workspace.row, workspace.adjusted, workspace.block_max), 1.0};
    if (raw.maximum == kNothing) return failed(decision, DecisionError::no_token_left);
    const bool wants_logprob = (params.flags & proto::kNoLogprob) == 0;
    const double raw_mass =
        wants_logprob ? sum_block_masses(workspace.adjusted, raw, workspace.block_mass) : kUnknown;

    const Adjusted adjusted = adjust(params, request, order, workspace);
    if (adjusted == Adjusted::bad_token) return failed(decision, DecisionError::bad_token);
    Weigher weigh = {raw.maximum, 1.0 / effective_temperature(params)};
    if (adjusted == Adjusted::yes) {
        weigh.maximum = find_block_maxima(workspace.adjusted, workspace.block_max);
        if (weigh.maximum == kNothing) return failed(decision, DecisionError::no_token_left);
    }

    const bool raw_masses_hold = wants_logprob && adjusted == Adjusted::no && weigh.scale == 1.0;
    const auto choice =
        choose(params, weigh, request.random, raw_masses_hold ? &raw_mass : nullptr, order, workspace);
    if (!choice) return failed(decision, DecisionError::bad_token);

    decision.token = static_cast<std::int32_t>(choice->token);
    const double raw_logit = static_cast<double>(workspace.row[choice->position]);
    decision.logprob = static_cast<float>((raw_logit - raw.maximum) - std::log(raw_mass));
    decision.flags =
        static_cast<std::uint16_t>(kind_flag(params) | stop_flag(params, request, decision.token));
    return decision;
}

}  // namespace croupier::sampler
