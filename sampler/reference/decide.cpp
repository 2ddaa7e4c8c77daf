#include "sampler/reference/decide.h"

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "sampler/params.h"
#include "sampler/reference/account.h"
#include "sampler/reference/checks.h"
#include "sampler/reference/draws.h"
#include "sampler/reference/logprobs.h"
#include "sampler/reference/steps.h"

namespace croupier::sampler::reference {
namespace {

using proto::DecisionError;
using proto::SamplingParams;
using proto::Step;

DecisionError error_of(RowFault fault) {
    switch (fault) {
        case RowFault::nan:
            return DecisionError::nan_logit;
        case RowFault::positive_infinity:
            return DecisionError::infinite_logit;
        case RowFault::none:
            break;
    }
    return DecisionError::none;
}

// Lists of ids, min_tokens, biases. Stops at the one that leaves nothing.
void adjust(const Request& request, Left& left, Account& account) {
    const auto take = [&](bool on, const char* name, std::string (*step)(const Request&, Left&)) {
        if (!on || left.tokens.empty()) return;
        account.take(name, left, [&] { return step(request, left); });
    };
    take(!request.allowed_ids.empty(), "allowed_token_ids", keep_allowed_ids);
    take(!request.bad_words.empty(), "bad_words", ban_bad_words);
    take(request.output.size() < request.params->min_tokens, "min_tokens", ban_stops_before_min_tokens);
    take(!request.bias.empty(), "logit_bias", add_logit_bias);
}

// The steps of the request's order.
void take_steps(const Request& request, Left& left, Account& account) {
    for (const Step step : order_of(*request.params)) {
        if (!takes_step(*request.params, step)) continue;
        account.take(proto::facts_of(step).name, left, [&] { return take_step(step, request, left); });
    }
}

std::uint16_t kind_flag(const SamplingParams& params) {
    if (is_greedy(params)) return proto::kGreedy;
    return is_truncated(params) ? std::uint16_t{proto::kTruncated} : std::uint16_t{0};
}

// As vLLM's check_sequence_repetition().
bool ends_with_loop(const Request& request, std::int32_t token) {
    const SamplingParams& params = *request.params;
    if (params.loop_max_period == 0) return false;
    std::vector<std::int32_t> all(request.output.begin(), request.output.end());
    all.push_back(token);
    const std::span<const std::int32_t> output = all;
    const std::size_t shortest = std::max<std::size_t>(params.loop_min_period, 1);
    for (std::size_t period = shortest; period <= params.loop_max_period; ++period) {
        if (period * params.loop_count > output.size()) return false;
        const auto tail = output.last(period);
        bool repeats = true;
        for (std::size_t i = 1; i < params.loop_count; ++i) {
            const auto before = output.last((i + 1) * period).first(period);
            repeats = repeats && std::equal(tail.begin(), tail.end(), before.begin());
        }
        if (repeats) return true;
    }
    return false;
}

std::uint16_t stop_flag(const Request& request, std::int32_t token) {
    const SamplingParams& params = *request.params;
    if ((params.flags & proto::kStopsOnlyBan) == 0) {
        const bool ignores_eos = (params.flags & proto::kIgnoreEos) != 0;
        if (!ignores_eos && token == params.eos_token_id) return proto::kStoppedByEos;
        const auto stop = std::find(request.stop_ids.begin(), request.stop_ids.end(), token);
        if (stop != request.stop_ids.end()) return proto::kStoppedByToken;
    }
    const std::size_t outputs = request.output.size() + 1;
    const bool enough = params.max_tokens > 0 && outputs >= params.max_tokens;
    const bool full = request.prompt.size() + outputs >= request.max_length;
    if (enough || full) return proto::kStoppedByLength;
    const bool loops = outputs > params.min_tokens && ends_with_loop(request, token);
    return loops ? std::uint16_t{proto::kStoppedByLoop} : std::uint16_t{0};
}

// A greedy draw is from one token.
std::vector<Survivor> support_of(const SamplingParams& params, Left left, std::int32_t drawn) {
    if (is_greedy(params)) return {{drawn, 0, 1.0}};
    sort_canonically(left);
    const Weights weights = weights_of(left);
    std::vector<Survivor> support;
    for (std::size_t i = 0; i < left.tokens.size(); ++i) {
        const double share = static_cast<double>(weights.masses[i]) / static_cast<double>(weights.total);
        support.push_back({left.tokens[i].id, 0, share});
    }
    return support;
}

void add_logprobs(const SamplingParams& params, const Left& raw, const Left& left, Outcome& outcome) {
    outcome.decision.logprob = std::numeric_limits<float>::quiet_NaN();
    if ((params.flags & proto::kNoLogprob) != 0) return;
    const bool processed = params.logprob_mode == proto::LogprobMode::processed;
    const Left& ranked = processed ? left : raw;
    outcome.logprobs = ranked_logprobs(ranked, outcome.decision.token, params.logprobs);
    if ((params.flags & proto::kRankCountsTies) != 0) {
        outcome.logprobs.front().rank = rank_with_ties(ranked, outcome.decision.token);
    }
    outcome.decision.logprob = outcome.logprobs.front().logprob;
    if (params.logprobs == 0) outcome.logprobs.clear();
}

Outcome failed(Outcome outcome, DecisionError error, Account account) {
    outcome.decision.error = error;
    outcome.account = std::move(account).steps();
    return outcome;
}

}  // namespace

Outcome decide(const RowView& row, const Request& request) {
    Outcome outcome;
    Account account(request.wants_support);
    outcome.decision.position = static_cast<std::uint32_t>(request.output.size());
    outcome.feedback = request.feedback;
    const DecisionError fault = request_fault(row, request);
    if (fault != DecisionError::none) return failed(std::move(outcome), fault, account);

    Left left;
    const DecisionError row_fault = error_of(read_row(row, left));
    if (row_fault != DecisionError::none) return failed(std::move(outcome), row_fault, account);
    const Left whole = left;
    if (!request.mask.empty() && !left.tokens.empty()) {
        account.take("mask", left, [&] { return apply_mask(request, left); });
    }
    const Left raw = left;
    adjust(request, left, account);
    if (left.tokens.empty()) return failed(std::move(outcome), DecisionError::no_token_left, account);
    take_steps(request, left, account);

    const Draw drawn = draw(request, row.vocab, whole, left, account);
    const std::int32_t token = left.tokens[drawn.drawn].id;
    outcome.decision.token = token;
    outcome.decision.flags =
        static_cast<std::uint16_t>(kind_flag(*request.params) | stop_flag(request, token));
    outcome.feedback = drawn.feedback;
    add_logprobs(*request.params, raw, left, outcome);
    if (wants_support(*request.params, request)) {
        outcome.support = support_of(*request.params, left, token);
        outcome.support_total = static_cast<std::uint32_t>(outcome.support.size());
        outcome.support.resize(support_room(*request.params, request, outcome.support.size()));
    }
    outcome.account = std::move(account).steps();
    return outcome;
}

}  // namespace croupier::sampler::reference
