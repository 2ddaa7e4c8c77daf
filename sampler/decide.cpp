#include "sampler/decide.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>

#include "sampler/adjuster.h"
#include "sampler/blocked_row.h"
#include "sampler/candidates.h"
#include "sampler/canonical_order.h"
#include "sampler/chain.h"
#include "sampler/draw.h"
#include "sampler/dynamic_temperature.h"
#include "sampler/float_bounds.h"
#include "sampler/formulas.h"
#include "sampler/hash_race.h"
#include "sampler/logprobs.h"
#include "sampler/mirostat_search.h"
#include "sampler/params.h"
#include "sampler/plan.h"
#include "sampler/proposal_draw.h"
#include "sampler/race.h"
#include "sampler/race_key.h"
#include "sampler/request_check.h"
#include "sampler/row_classes.h"
#include "sampler/row_mask.h"
#include "sampler/row_mass.h"
#include "sampler/row_scan.h"
#include "sampler/stops.h"
#include "sampler/winner_question.h"

namespace croupier::sampler {
namespace {

using proto::Decision;
using proto::DecisionError;
using proto::SamplingParams;

// Of a support that few of the likely winners are in, all values are sooner counted.
constexpr int kMostAsks = 12;
constexpr float kNoLogprob = std::numeric_limits<float>::quiet_NaN();

Mass mass_of_nth(const Survivors& survivors, std::size_t n) {
    for (const EqualClass& each : survivors.classes()) {
        if (n < each.size) return each.mass;
        n -= each.size;
    }
    return 0;
}

// One decision from a checked request on.
class Decider {
  public:
    Decider(const RowView& view, const SamplingParams& params, const Request& request, SequenceState& state,
            Workspace& workspace)
        : params_(params),
          request_(request),
          workspace_(workspace),
          plan_(plan_of(params, request, view.dtype)),
          row_(lay_in_blocks(view, workspace)),
          adjust_(params, request, state, workspace),
          race_(row_, adjust_, all_adjustments(params), race_key(params, request), request.prepared,
                workspace),
          hash_race_(row_, adjust_, all_adjustments(params), params, request, workspace),
          search_(row_, adjust_, request, workspace),
          chain_(params, request, adjust_, workspace) {}

    DecisionError scan();
    DecisionError choose();
    std::int32_t token() const { return static_cast<std::int32_t>(drawn_.token); }
    float logprob();
    void note_blocks_read() const;

  private:
    RowFault scan_row() const;
    DecisionError take(Path path);
    DecisionError from_candidates();
    DecisionError answer_many();
    DecisionError from_classes();
    DecisionError race_all();
    DecisionError ask_winners();
    DecisionError race_by_entropy();
    DecisionError from_mirostat();
    Candidate draw_mirostat(Survivors& survivors, double temperature);
    template <class Eligible>
    std::optional<Candidate> winner(double temperature, const BoundedValues& values, Eligible eligible);
    std::optional<Candidate> adaptive_winner(RowClasses& classes, const Survivors& survivors);
    DecisionError answer_exactly();
    DecisionError propose_or_race();
    std::optional<Candidate> propose(double scale);
    void take_first_maximum(std::uint32_t candidates);
    void draw_untruncated(std::uint32_t candidates);
    void draw_survivor(std::uint32_t candidates);
    Candidate draw_adaptive(const Survivors& survivors, std::uint32_t tokens);
    void note_distribution(Survivors survivors, double scale);
    void answer_support(const Survivors& survivors);
    double scale() const { return plan_.pruning.scale; }
    bool proposes() const { return params_.rng == proto::Rng::shvs && !is_truncated(params_); }
    bool wants_logprob() const { return (params_.flags & proto::kNoLogprob) == 0; }
    bool wants_distribution() const { return wants_processed() || request_.wants_support; }
    bool wants_processed() const {
        return wants_logprob() && params_.logprob_mode == proto::LogprobMode::processed;
    }
    // Every filter, penalty and temperature is where the plan's pruning has it.
    bool is_plain() const {
        return !is_truncated(params_) && !has_mirostat(params_) && !has_adaptive_p(params_) &&
               params_.dynatemp_range <= 0.0 && plan_.adjusts_first;
    }
    DecisionError drawn(const std::optional<Candidate>& winner) {
        if (!winner) return DecisionError::no_token_left;
        drawn_ = *winner;
        return DecisionError::none;
    }

    const SamplingParams& params_;
    const Request& request_;
    Workspace& workspace_;
    Plan plan_;
    BlockedRow row_;
    Adjuster adjust_;
    Race race_;
    HashRace hash_race_;
    CandidateSearch search_;
    Chain chain_;
    Candidate drawn_{};
    float processed_logprob_ = kNoLogprob;
};

// What the decision needs to know of the whole row is summed on the way.
RowFault Decider::scan_row() const {
    workspace_.answer_space.blocks = row_.blocks;
    workspace_.answer_space.blocks_read = row_.summarised ? 0 : row_.blocks;
    const auto block_max = workspace_.block_max.first(row_.blocks);
    if (row_.summarised) return judge_block_maxima(block_max);
    const bool summable = row_.dtype == proto::Dtype::bf16 && request_.mask.empty();
    const bool asked = plan_.path == Path::asked && asks_for_weight(plan_.asked);
    const bool surprised = plan_.path == Path::mirostat && params_.mirostat == 2;
    if (summable && (asked || surprised)) return scan_and_weigh(row_, scale(), workspace_);
    if (summable && wants_logprob() && !wants_processed()) return scan_and_weigh(row_, 1.0, workspace_);
    return scan_block_maxima(row_, block_max);
}

// A NaN or +inf is an error even where the mask hides it: a row that holds one comes from a broken forward
// pass.
DecisionError Decider::scan() {
    switch (scan_row()) {
        case RowFault::nan:
            return DecisionError::nan_logit;
        case RowFault::positive_infinity:
            return DecisionError::infinite_logit;
        case RowFault::none:
            break;
    }
    // Proposals are made by what the row holds, whatever the mask hides of it.
    if (!request_.mask.empty() && plan_.path != Path::listed && !proposes())
        mask_block_maxima(row_, request_.mask, workspace_.block_max.first(row_.blocks));
    return DecisionError::none;
}

DecisionError Decider::choose() {
    return take(plan_.path);
}

DecisionError Decider::take(Path path) {
    workspace_.answer_space.path = path;
    switch (path) {
        case Path::listed:
        case Path::head:
        case Path::whole_row:
            return from_candidates();
        case Path::race:
            return race_all();
        case Path::asked:
            return plan_.asked == proto::Step::temperature ? race_by_entropy() : ask_winners();
        case Path::mirostat:
            return from_mirostat();
        case Path::proposals:
            return propose_or_race();
        case Path::classes:
            return from_classes();
        case Path::none:
        case Path::count_:
            break;
    }
    return DecisionError::bad_record;
}

// Of all tokens, by the request's rng.
template <class Eligible>
std::optional<Candidate> Decider::winner(double temperature, const BoundedValues& values, Eligible eligible) {
    return perturbs_logits(params_) ? hash_race_.winner(temperature, values, eligible)
                                    : race_.winner(temperature, values, eligible);
}

DecisionError Decider::race_all() {
    const double temperature = draw_temperature(params_);
    // What it costs is compared with what hot sets cost.
    workspace_.answer_space.region = Region::hot;
    return drawn(winner(temperature, kAllValues, runs_anywhere));
}

// The tokens of the support, in the race's order, are all tokens in that order, less those outside.
DecisionError Decider::ask_winners() {
    const double temperature = draw_temperature(params_);
    WinnerQuestion question(plan_.asked, params_, row_, adjust_, search_, plan_.pruning, workspace_);
    if (!question.begin()) return answer_exactly();
    const auto may_be_kept = [&](const Candidate& candidate) { return question.may_be_kept(candidate); };
    for (int asks = 0; asks < kMostAsks || row_.dtype == proto::Dtype::fp32; ++asks) {
        const auto asked = winner(temperature, question.values(), may_be_kept);
        if (!asked) return answer_exactly();
        const Verdict verdict = question.ask(*asked);
        if (verdict == Verdict::kept) return drawn(asked);
        if (verdict == Verdict::open) return answer_exactly();
    }
    return answer_exactly();
}

// The dynamic temperature is known between two values: a winner that is clear at one between them wins at
// all.
DecisionError Decider::race_by_entropy() {
    WinnerQuestion row(plan_.asked, params_, row_, adjust_, search_, plan_.pruning, workspace_);
    if (!row.begin()) return answer_exactly();
    const auto tempered = dynamic_temperature_between(params_, row);
    const auto clear = tempered ? race_.clear_winner(tempered->temperature, tempered->margin) : std::nullopt;
    return clear ? drawn(clear) : answer_exactly();
}

// What mirostat keeps of all tokens stands among the best, without a look at the others.
DecisionError Decider::from_mirostat() {
    auto survivors =
        MirostatSearch(params_, request_, row_, adjust_, search_, plan_.pruning, workspace_).kept();
    if (!survivors) return answer_exactly();
    drawn_ = draw_mirostat(*survivors, draw_temperature(params_));
    return DecisionError::none;
}

Candidate Decider::draw_mirostat(Survivors& survivors, double temperature) {
    const Mass total = survivors.total();
    const Weigher weigher = survivors.weigher();
    const std::uint32_t tokens = survivors.flatten();
    const Candidate drawn = race_.winner_among(temperature, workspace_.candidates.first(tokens));
    workspace_.answer_space.feedback = after_mirostat(params_, request_, weigher.mass(drawn.value), total);
    return drawn;
}

DecisionError Decider::answer_exactly() {
    workspace_.answer_space.left_open = workspace_.answer_space.path;
    return take(exact_path(params_, request_, plan_, row_.dtype));
}

// Where all proposals were rejected the race, whose randoms are others, draws from the same distribution.
DecisionError Decider::propose_or_race() {
    const auto proposed = propose(scale());
    if (proposed) return drawn(proposed);
    workspace_.answer_space.left_open = Path::proposals;
    if (!request_.mask.empty())
        mask_block_maxima(row_, request_.mask, workspace_.block_max.first(row_.blocks));
    return take(Path::race);
}

std::optional<Candidate> Decider::propose(double scale) {
    if (allows_few(request_)) return std::nullopt;
    ProposalDraw proposals(row_, adjust_, all_adjustments(params_), workspace_);
    return proposals.draw(params_, request_, scale);
}

DecisionError Decider::from_candidates() {
    const Gathered found = search_.search(plan_.pruning);
    if (found.gave_up) return answer_many();
    const std::uint32_t candidates = found.count;
    if (candidates == 0) return DecisionError::no_token_left;
    if (is_greedy(params_)) {
        take_first_maximum(candidates);
    } else if (is_plain()) {
        draw_untruncated(candidates);
    } else {
        draw_survivor(candidates);
    }
    return DecisionError::none;
}

// More tokens pass than a list is good for.
DecisionError Decider::answer_many() {
    if (plan_.asked != proto::Step::min_p) return answer_exactly();
    workspace_.answer_space.left_open = workspace_.answer_space.path;
    return take(Path::asked);
}

void Decider::take_first_maximum(std::uint32_t candidates) {
    const auto all = workspace_.candidates.first(candidates);
    drawn_ = *std::min_element(all.begin(), all.end(), canonically_before);
    if (wants_processed()) note_distribution(Survivors(workspace_, candidates), 1.0);
    workspace_.support.front() = {token(), 1.0};
    workspace_.answer_space.support = workspace_.support.first(request_.wants_support ? 1 : 0);
}

void Decider::draw_untruncated(std::uint32_t candidates) {
    const double temperature = draw_temperature(params_);
    if (perturbs_logits(params_)) {
        drawn_ = draw_perturbed(params_, request_, candidates, temperature, workspace_);
    } else {
        const auto proposed = proposes() ? propose(scale()) : std::nullopt;
        drawn_ =
            proposed ? *proposed : race_.winner_among(temperature, workspace_.candidates.first(candidates));
    }
    if (wants_distribution()) note_distribution(Survivors(workspace_, candidates), scale());
}

void Decider::draw_survivor(std::uint32_t candidates) {
    Survivors survivors(workspace_, candidates);
    chain_.apply(survivors, plan_.pruning.adjustments);
    const double temperature = chain_.temperature();
    if (has_mirostat(params_)) {
        keep_by_mirostat(params_, request_, survivors, workspace_.vocab);
        drawn_ = draw_mirostat(survivors, temperature);
    } else if (has_adaptive_p(params_)) {
        drawn_ = draw_adaptive(survivors, survivors.flatten());
    } else if (perturbs_logits(params_)) {
        drawn_ = draw_perturbed(params_, request_, survivors.flatten(), temperature, workspace_);
    } else {
        const std::uint32_t tokens = survivors.flatten();
        const auto proposed = proposes() ? propose(1.0 / temperature) : std::nullopt;
        drawn_ = proposed ? *proposed : race_.winner_among(temperature, workspace_.candidates.first(tokens));
    }
    if (!wants_distribution()) return;
    note_distribution(Survivors(workspace_, survivors.tokens()),
                      has_adaptive_p(params_) ? 1.0 : 1.0 / temperature);
}

// The distribution is replaced by one of the distance to the probability it aims at.
Candidate Decider::draw_adaptive(const Survivors& survivors, std::uint32_t tokens) {
    const auto total = static_cast<double>(survivors.total());
    const double aim = adaptive_aim(params_, request_.feedback);
    const auto all = workspace_.candidates.first(tokens);
    for (Candidate& each : all) {
        const auto mass = static_cast<double>(survivors.weigher().mass(each.value));
        each.value = adaptive_logit(mass / total, aim);
    }
    const Candidate drawn = race_.winner_among(1.0, all);
    const auto place = std::find_if(all.begin(), all.end(),
                                    [&](const Candidate& each) { return each.token == drawn.token; });
    const auto own =
        static_cast<double>(mass_of_nth(survivors, static_cast<std::size_t>(place - all.begin())));
    workspace_.answer_space.feedback = adaptive_feedback(params_, request_.feedback, own / total);
    return drawn;
}

DecisionError Decider::from_classes() {
    RowClasses classes(row_, adjust_, all_adjustments(params_), request_, workspace_);
    Survivors survivors = classes.list();
    if (survivors.classes().empty()) return DecisionError::no_token_left;
    chain_.apply(survivors, plan_.pruning.adjustments);
    if (has_mirostat(params_)) keep_by_mirostat(params_, request_, survivors, workspace_.vocab);
    if (has_adaptive_p(params_)) return drawn(adaptive_winner(classes, survivors));
    const BoundedValues values = {float_below(survivors.classes().back().value),
                                  float_above(survivors.classes().front().value)};
    const auto is_left = [&](const Candidate& candidate) { return classes.holds(survivors, candidate); };
    const double temperature = chain_.temperature();
    if (!has_mirostat(params_)) return drawn(winner(temperature, values, is_left));
    const auto drawn_token = race_.winner(temperature, values, is_left);
    if (drawn_token) {
        const Mass own = survivors.weigher().mass(drawn_token->value);
        workspace_.answer_space.feedback = after_mirostat(params_, request_, own, survivors.total());
    }
    return drawn(drawn_token);
}

// As draw_adaptive(), of all tokens. Up to the aim a larger probability replaces a logit by a larger one: a
// block's maximum bounds what replaces its tokens.
std::optional<Candidate> Decider::adaptive_winner(RowClasses& classes, const Survivors& survivors) {
    const Weigher weigher = survivors.weigher();
    const auto total = static_cast<double>(survivors.total());
    const double aim = adaptive_aim(params_, request_.feedback);
    const auto probability = [&](double value) { return static_cast<double>(weigher.mass(value)) / total; };
    const auto most = workspace_.replaced_max.first(row_.blocks);
    bound_adaptive(workspace_.block_max.first(row_.blocks), weigher, total, aim, most);
    const auto drawn = race_.winner_replaced(
        most, [&](const Candidate& candidate) { return classes.holds(survivors, candidate); },
        [&](double value) { return adaptive_logit(probability(value), aim); });
    if (drawn) {
        workspace_.answer_space.feedback =
            adaptive_feedback(params_, request_.feedback, probability(drawn->value));
    }
    return drawn;
}

void Decider::note_distribution(Survivors survivors, double scale) {
    survivors.weigh(scale);
    if (request_.wants_support) answer_support(survivors);
    if (wants_processed()) {
        processed_logprob_ = processed_logprobs(params_.logprobs, drawn_, survivors, workspace_);
    }
}

void Decider::answer_support(const Survivors& survivors) {
    const auto total = static_cast<double>(survivors.total());
    std::uint32_t count = 0;
    for (const EqualClass& each : survivors.classes()) {
        const double probability = static_cast<double>(each.mass) / total;
        for (std::uint32_t i = 0; i < each.size; ++i) {
            const auto id = static_cast<std::int32_t>(survivors.member(each, i).token);
            workspace_.support[count++] = {id, probability};
        }
    }
    workspace_.answer_space.support = workspace_.support.first(count);
}

float Decider::logprob() {
    if (!wants_logprob()) return kNoLogprob;
    if (wants_processed()) return processed_logprob_;
    return raw_logprobs(params_.logprobs, drawn_, row_, request_, search_, workspace_);
}

// Sums and counts take in the whole row.
void Decider::note_blocks_read() const {
    Answer& answer = workspace_.answer_space;
    const bool whole =
        answer.path == Path::classes || answer.path == Path::asked || (wants_logprob() && !wants_processed());
    answer.blocks_read = whole ? answer.blocks : std::min(answer.blocks_read, answer.blocks);
}

DecisionError decide_checked(const RowView& view, const SamplingParams& params, const Request& request,
                             SequenceState& state, Workspace& workspace, Decision& decision) {
    Decider decider(view, params, request, state, workspace);
    const DecisionError row_fault = decider.scan();
    if (row_fault != DecisionError::none) return row_fault;
    const DecisionError fault = decider.choose();
    if (fault != DecisionError::none) return fault;
    decision.token = decider.token();
    decision.logprob = decider.logprob();
    decider.note_blocks_read();
    decision.flags = flags_of(params, request, decision.token);
    return DecisionError::none;
}

}  // namespace

Decision decide(const RowView& view, const Request& request, SequenceState& state,
                Workspace& workspace) noexcept {
    // A copy: what was checked must be what is used, and the original lies in shared memory.
    const SamplingParams params = *request.params;
    workspace.answer_space = {};
    workspace.weighed = {};
    workspace.answer_space.feedback = request.feedback;
    Decision decision;
    decision.position = static_cast<std::uint32_t>(request.output.size());
    decision.error = view.vocab == workspace.vocab ? request_fault(view, params, request, state)
                                                   : DecisionError::bad_record;
    if (decision.error == DecisionError::none) {
        decision.error = decide_checked(view, params, request, state, workspace, decision);
    }
    return decision;
}

}  // namespace croupier::sampler
