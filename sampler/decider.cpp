#include "sampler/decider.h"

#include <algorithm>

#include "sampler/draw.h"
#include "sampler/float_bounds.h"
#include "sampler/logprobs.h"
#include "sampler/proposal_draw.h"
#include "sampler/row_mask.h"
#include "sampler/row_mass.h"

namespace croupier::sampler {

using proto::DecisionError;

namespace {

// If few of the likely winners are in the support, it is faster to count all values.
constexpr int most_asks(proto::Step filter) {
    return filter == proto::Step::typical_p ? 4 : 12;  // its sums lie on both sides of the centre
}

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

}  // namespace

// Sums what the decision needs to know of the whole row in the same pass as the scan.
RowFault Decider::scan_row() const {
    if (row_.lean != nullptr && row_.lean->masked_in_part && !races_masked()) return scan_unmasked();
    workspace_.answer_space.blocks = row_.blocks;
    workspace_.answer_space.blocks_read = row_.summarised ? 0 : row_.blocks;
    const auto block_max = workspace_.block_max.first(row_.blocks);
    if (row_.summarised) {
        const bool sound = row_.lean != nullptr && row_.lean->sound;
        const RowFault fault = sound ? RowFault::none : judge_block_maxima(block_max);
        const bool masks = races_masked() && (row_.lean == nullptr || !row_.lean->masked);
        return fault == RowFault::none && masks ? mask_block_maxima(row_, request_.mask, block_max) : fault;
    }
    if (races_masked()) return scan_allowed_maxima(row_, request_.mask, block_max);
    const bool summable = row_.dtype == proto::Dtype::bf16 && request_.mask.empty();
    const bool asked = plan_.path == DecisionPath::asked && asks_for_weight(plan_.asked);
    const bool surprised = plan_.path == DecisionPath::mirostat && params_.mirostat == 2;
    const bool nucleus = applied_ == proto::Step::top_p;
    if (summable && (asked || surprised || nucleus)) return scan_and_weigh(row_, scale(), workspace_);
    if (summable && sums_logprob()) return scan_and_weigh(row_, logprob_scale(), workspace_);
    return scan_block_maxima(row_, block_max);
}

// A writer reads the slot on its own, perhaps while it holds another request. What it computed under that
// request's mask says nothing to a decision that has to see the whole row.
RowFault Decider::scan_unmasked() const {
    const auto block_max = workspace_.block_max.first(row_.blocks);
    row_.lean->forget_told();
    workspace_.weighed = {};
    row_.ask_for_absent();
    if (row_.lacks_blocks()) return RowFault::none;
    const RowFault fault = scan_block_maxima(row_, block_max);
    row_.lean->largest = largest_of(block_max);
    return fault;
}

// A NaN or +inf is an error even where the mask hides it: a row that holds one comes from a broken forward
// pass.
DecisionError Decider::scan() {
    return error_of(scan_row());
}

DecisionError Decider::choose() {
    return take(plan_.path);
}

// No path can go on without absent blocks: those that were asked for so far are what it needs first.
DecisionError Decider::take(DecisionPath path) {
    workspace_.answer_space.path = path;
    if (row_.lacks_blocks()) return DecisionError::none;
    if (path == DecisionPath::classes) row_.ask_for_absent();
    if (row_.lacks_blocks()) return DecisionError::none;
    if (path == DecisionPath::classes && row_.lean != nullptr)
        row_.lean->bring_together(workspace_.gathered,
                                  std::size_t{kBlock} * proto::element_bytes(row_.dtype));
    switch (path) {
        case DecisionPath::head:
            if (plan_.cut.tempered) return from_tempered();
            return applied_ == proto::Step::top_p ? from_nucleus() : from_candidates();
        case DecisionPath::listed:
            return from_candidates();
        case DecisionPath::race:
            return race_all();
        case DecisionPath::asked:
            return request::is_tempered_dynamically(params_) ? race_by_entropy() : ask_winners();
        case DecisionPath::mirostat:
            return from_mirostat();
        case DecisionPath::proposals:
            return propose_or_race();
        case DecisionPath::classes:
            return from_classes();
        case DecisionPath::none:
        case DecisionPath::drawn:
        case DecisionPath::count_:
            break;
    }
    return DecisionError::bad_record;
}

DecisionError Decider::race_all() {
    const double temperature = draw_temperature(params_);
    // Counted as hot, so that its cost can be compared with that of hot sets.
    workspace_.answer_space.region = Region::hot;
    return drawn(winner(temperature, kAllValues, runs_anywhere));
}

// The support in the race's order is the race's order of all tokens, less those outside the support.
DecisionError Decider::ask_winners() {
    const double temperature = draw_temperature(params_);
    WinnerQuestion question(plan_.asked, params_, row_, adjust_, search_, pruning_, workspace_);
    // Tried first, because it needs no sum of the history or the row.
    std::optional<Candidate> asked;
    if (question.may_keep_by_own_weight()) asked = winner(temperature, kAllValues, runs_anywhere);
    const std::uint32_t by_race = row_.asked();
    if (asked && by_race == 0 && question.keeps_by_own_weight(*asked)) return drawn(asked);
    if (!question.begin()) return answer_exactly();
    const auto may_be_kept = [&](const Candidate& candidate) { return question.may_be_kept(candidate); };
    // exclude_absent() can only spare blocks that the race asked for, not those that changed tokens need.
    const bool knows_changes = row_.asked() == by_race;
    for (int asks = 0; asks < most_asks(plan_.asked); ++asks) {
        if (!asked) asked = winner(temperature, question.values(), may_be_kept);
        if (row_.lacks_blocks() && knows_changes && question.exclude_absent()) {
            row_.lean->forget_asked();
            asked = winner(temperature, question.values(), may_be_kept);
        }
        // The leader among the blocks that are there usually wins: the blocks that its question needs are
        // asked for in the same request.
        if (asked && row_.lacks_blocks()) (void)question.ask(*asked);
        if (!asked || row_.lacks_blocks()) return answer_exactly();
        const Verdict verdict = question.ask(*asked);
        if (verdict == Verdict::kept) return drawn(asked);
        if (verdict == Verdict::open) return answer_exactly();
        asked.reset();
    }
    return answer_exactly();
}

DecisionError Decider::answer_exactly() {
    workspace_.answer_space.left_open = workspace_.answer_space.path;
    return take(DecisionPath::classes);
}

// If all proposals were rejected, the race draws from the same distribution with other randoms.
DecisionError Decider::propose_or_race() {
    const auto proposed = propose(scale());
    if (proposed) return drawn(proposed);
    if (row_.lacks_blocks()) return DecisionError::none;
    workspace_.answer_space.left_open = DecisionPath::proposals;
    if (!request_.mask.empty()) {
        const auto block_max = workspace_.block_max.first(row_.blocks);
        const DecisionError fault = error_of(mask_block_maxima(row_, request_.mask, block_max));
        if (fault != DecisionError::none) return fault;
    }
    return take(DecisionPath::race);
}

std::optional<Candidate> Decider::propose(double scale) {
    if (allows_few(request_)) return std::nullopt;
    ProposalDraw proposals(row_, adjust_, all_adjustments(params_), workspace_);
    return proposals.draw(params_, request_, scale);
}

// The value from which a top-n sigma keeps tokens, if sums over the row tell it. It comes before these
// filters, but keeps of their candidates what it keeps of all tokens.
std::optional<WinnerQuestion::Interval> Decider::kept_by_sigma() {
    Pruning before = pruning_;
    before.scale = 1.0;
    WinnerQuestion sigma(proto::Step::top_n_sigma, params_, row_, adjust_, search_, before, workspace_);
    return sigma.begin() ? std::optional(sigma.kept_from()) : std::nullopt;
}

// The number of candidates from that value on; nothing if one of them lies inside the interval.
std::optional<std::uint32_t> Decider::keep_from(const WinnerQuestion::Interval& from,
                                                std::uint32_t candidates) {
    const auto all = workspace_.candidates.first(candidates);
    const auto end =
        std::remove_if(all.begin(), all.end(), [&](const Candidate& each) { return each.value < from.low; });
    if (std::any_of(all.begin(), end, [&](const Candidate& each) { return each.value < from.high; }))
        return std::nullopt;
    return static_cast<std::uint32_t>(end - all.begin());
}

// Whether tokens from that value on are better counted than listed and sorted.
bool Decider::reach_many(double least) const {
    constexpr std::uint32_t kMostBlocks = 512;
    return count_at_least(workspace_.block_max.first(row_.blocks), float_below(least)) > kMostBlocks;
}

void Decider::forget_cut() {
    pruning_.top_k = 0;
    pruning_.min_p = 0.0;
    pruning_.least = -std::numeric_limits<double>::infinity();
    applied_ = proto::Step::end;
}

DecisionError Decider::answer_without_cut() {
    forget_cut();
    return answer_exactly();
}

DecisionError Decider::from_candidates() {
    const bool behind_sigma = applied_ == proto::Step::top_n_sigma;
    const auto kept = behind_sigma ? kept_by_sigma() : std::nullopt;
    if (behind_sigma && !kept) return answer_without_cut();
    if (kept) pruning_.least = kept->low;
    if (kept && plan_.cut.by_sigma() && reach_many(kept->low)) return answer_without_cut();
    const Gathered found = search_.search(pruning_);
    if (row_.lacks_blocks()) return DecisionError::none;
    if (found.gave_up) return answer_many();
    std::uint32_t candidates = found.count;
    if (candidates == 0) return DecisionError::no_token_left;
    if (kept) {
        const auto left = keep_from(*kept, candidates);
        // The best is always left, unless a writer's maxima are not those of its row.
        if (left.value_or(0) == 0) return answer_without_cut();
        candidates = *left;
    }
    if (is_greedy(params_)) {
        take_first_maximum(candidates);
    } else if (is_plain() || is_cut_by_top_k()) {
        draw_untruncated(candidates);
    } else {
        return draw_survivor(Survivors(workspace_, candidates));
    }
    return DecisionError::none;
}

// More tokens pass than a list is good for.
DecisionError Decider::answer_many() {
    if (plan_.asked != proto::Step::min_p) return answer_exactly();
    workspace_.answer_space.left_open = workspace_.answer_space.path;
    return take(DecisionPath::asked);
}

float Decider::logprob() {
    if (!request::wants_logprob(params_)) return kNoLogprob;
    if (wants_processed()) return processed_logprob_;
    return row_logprobs(params_, drawn_, logprob_scale(), row_, request_, search_, workspace_);
}

// Sums and counts read the whole row.
void Decider::note_blocks_read() const {
    Answer& answer = workspace_.answer_space;
    const bool whole =
        answer.path == DecisionPath::classes || answer.path == DecisionPath::asked || sums_logprob();
    answer.blocks_read = whole ? answer.blocks : std::min(answer.blocks_read, answer.blocks);
}

}  // namespace croupier::sampler
