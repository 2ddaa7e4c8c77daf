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
#include "sampler/logprobs.h"
#include "sampler/mass_search.h"
#include "sampler/params.h"
#include "sampler/proposal_draw.h"
#include "sampler/request_check.h"
#include "sampler/row_mass.h"
#include "sampler/row_scan.h"
#include "sampler/value_counts.h"

namespace croupier::sampler {
namespace {

using proto::Decision;
using proto::DecisionError;
using proto::SamplingParams;

bool draws_from_all(const SamplingParams& params) {
    return !is_truncated(params) && !has_mirostat(params) && !has_adaptive_p(params) &&
           !(takes_step(params, proto::Step::temperature) && params.dynatemp_range > 0.0);
}

constexpr float kNoLogprob = std::numeric_limits<float>::quiet_NaN();

// One decision from a checked request on.
class Decider {
  public:
    Decider(const RowView& view, const SamplingParams& params, const Request& request, SequenceState& state,
            Workspace& workspace)
        : params_(params),
          request_(request),
          workspace_(workspace),
          row_(lay_in_blocks(view, workspace)),
          adjust_(params, request, state, workspace),
          search_(row_, adjust_, request, workspace),
          pruning_(pruning_of(params)),
          by_mass_(needs_mass()),
          by_counts_(counts_values()) {}

    DecisionError scan();
    DecisionError choose();
    std::int32_t token() const { return static_cast<std::int32_t>(drawn_.token); }
    float logprob();
    void note_blocks_read() const;

  private:
    RowFault scan_row();
    bool needs_mass() const;
    bool counts_values() const;
    bool choose_by_mass();
    bool choose_by_counts();
    void choose_greedy(std::uint32_t candidates);
    std::optional<Candidate> propose(double scale);
    std::uint32_t random_of_all() const;
    void draw_of_all(std::uint32_t candidates);
    void choose_survivor(std::uint32_t candidates);
    void note_distribution(Survivors survivors, double scale);
    void answer_support(const Survivors& survivors);
    bool wants_logprob() const { return (params_.flags & proto::kNoLogprob) == 0; }
    bool wants_distribution() const { return wants_processed() || request_.wants_support; }
    bool wants_processed() const {
        return wants_logprob() && params_.logprob_mode == proto::LogprobMode::processed;
    }

    const SamplingParams& params_;
    const Request& request_;
    Workspace& workspace_;
    BlockedRow row_;
    Adjuster adjust_;
    CandidateSearch search_;
    Pruning pruning_;
    bool by_mass_;    // of most tokens it needs no more than their mass
    bool by_counts_;  // and of all no more than how often each value stands
    Candidate drawn_{};
    float processed_logprob_ = kNoLogprob;
};

// What the decision needs to know of the whole row is summed on the way.
RowFault Decider::scan_row() {
    workspace_.answer_space.blocks = row_.blocks;
    workspace_.answer_space.blocks_read = row_.summarised ? 0 : row_.blocks;
    const auto block_max = workspace_.block_max.first(row_.blocks);
    if (row_.summarised) return judge_block_maxima(block_max);
    const bool summable = row_.dtype == proto::Dtype::bf16 && request_.mask.empty();
    if (summable && by_counts_) return scan_and_bound(row_, pruning_.scale, workspace_);
    if (summable && by_mass_) return scan_and_weigh(row_, pruning_.scale, workspace_);
    const bool raw_logprob = wants_logprob() && !wants_processed();
    if (summable && raw_logprob) return scan_and_weigh(row_, 1.0, workspace_);
    return scan_block_maxima(row_, block_max);
}

// A NaN or +inf is an error even where the mask hides it: a row that holds one comes from a broken forward
// pass.
DecisionError Decider::scan() {
    const RowFault fault = scan_row();
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

bool Decider::needs_mass() const {
    return !is_greedy(params_) && request_.allowed_ids.empty() && !perturbs_logits(params_) &&
           begins_with_top_p(params_);
}

bool Decider::counts_values() const {
    return by_mass_ && !wants_distribution() && adjust_.changes_nothing(pruning_.adjustments) &&
           ValueCounts::apply_to(row_, params_);
}

bool Decider::choose_by_mass() {
    MassSearch masses(row_, adjust_, search_, request_, pruning_, workspace_);
    Chain chain(params_, request_, adjust_, workspace_);
    auto survivors = masses.filter(chain);
    if (!survivors) return false;
    drawn_ = draw_survivor(params_, request_, *survivors, workspace_);
    note_distribution(*survivors, survivors->scale());
    return true;
}

bool Decider::choose_by_counts() {
    Chain chain(params_, request_, adjust_, workspace_);
    ValueCounts counts(row_, chain, request_.random, pruning_.scale, workspace_);
    const auto drawn = counts.draw();
    drawn_ = drawn.value_or(Candidate{});
    return drawn.has_value();
}

// From all tokens, without a look at them all. Nothing: that is not how this request draws, or it failed.
std::optional<Candidate> Decider::propose(double scale) {
    if (perturbs_logits(params_) || allows_few(request_)) return std::nullopt;
    ProposalDraw proposals(row_, adjust_, all_adjustments(params_), workspace_);
    return proposals.draw(params_, request_, scale);
}

// Of the inverse CDF: the first proposal, where there was one, has used up the request's own.
std::uint32_t Decider::random_of_all() const {
    return allows_few(request_) ? request_.random : randoms_of(params_, request_, kMostProposals).choice;
}

DecisionError Decider::choose() {
    // A greedy request's processed log-probs are those of all tokens.
    if (is_greedy(params_) && wants_processed()) pruning_.top_k = 0;
    if (by_counts_ ? choose_by_counts() : by_mass_ && choose_by_mass()) return DecisionError::none;
    const bool of_all = !is_greedy(params_) && draws_from_all(params_);
    const auto proposed = of_all ? propose(pruning_.scale) : std::nullopt;
    drawn_ = proposed.value_or(Candidate{});
    if (proposed && !wants_distribution()) return DecisionError::none;
    const Gathered gathered = search_.search(pruning_);
    if (gathered.count == 0) return DecisionError::no_token_left;
    if (is_greedy(params_)) {
        choose_greedy(gathered.count);
    } else if (of_all) {
        if (!proposed) draw_of_all(gathered.count);
        if (wants_distribution()) note_distribution(Survivors(workspace_, gathered.count), pruning_.scale);
    } else {
        choose_survivor(gathered.count);
    }
    return DecisionError::none;
}

void Decider::choose_greedy(std::uint32_t candidates) {
    const auto all = workspace_.candidates.first(candidates);
    drawn_ = *std::min_element(all.begin(), all.end(), canonically_before);
    if (wants_processed()) note_distribution(Survivors(workspace_, candidates), 1.0);
    workspace_.support.front() = {token(), 1.0};
    workspace_.answer_space.support = workspace_.support.first(request_.wants_support ? 1 : 0);
}

void Decider::draw_of_all(std::uint32_t candidates) {
    const bool tempered = takes_step(params_, proto::Step::temperature);
    const double temperature = tempered ? effective_temperature(params_) : 1.0;
    drawn_ = perturbs_logits(params_)
                 ? draw_perturbed(params_, request_, candidates, temperature, workspace_)
                 : draw_in_vocabulary_order(random_of_all(), candidates, pruning_.scale, workspace_);
}

void Decider::choose_survivor(std::uint32_t candidates) {
    Survivors survivors(workspace_, candidates);
    Chain chain(params_, request_, adjust_, workspace_);
    (void)chain.apply(survivors, pruning_.adjustments, {});
    const double scale = survivors.scale();
    const bool by_mass = has_mirostat(params_) || has_adaptive_p(params_) ||
                         (!perturbs_logits(params_) && is_truncated(params_));
    if (by_mass) {
        drawn_ = draw_survivor(params_, request_, survivors, workspace_);
    } else if (perturbs_logits(params_)) {
        drawn_ = draw_perturbed(params_, request_, survivors.flatten(), chain.temperature(), workspace_);
        survivors = Survivors(workspace_, survivors.tokens());
        survivors.weigh(scale);
    } else {
        const auto proposed = propose(scale);
        const std::uint32_t tokens = survivors.flatten();
        sort_by_token(workspace_, tokens);
        drawn_ = proposed ? *proposed : draw_in_vocabulary_order(random_of_all(), tokens, scale, workspace_);
        survivors = Survivors(workspace_, tokens);
        survivors.weigh(scale);
    }
    note_distribution(survivors, survivors.scale());
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
        answer.path == Path::mass || answer.path == Path::counts || (wants_logprob() && !wants_processed());
    answer.blocks_read = whole ? answer.blocks : std::min(answer.blocks_read, answer.blocks);
}

std::uint16_t kind_flag(const SamplingParams& params) {
    if (is_greedy(params)) return proto::kGreedy;
    return is_truncated(params) ? std::uint16_t{proto::kTruncated} : std::uint16_t{0};
}

std::uint16_t stop_flag(const SamplingParams& params, const Request& request, std::int32_t token) {
    const bool ignores_eos = (params.flags & proto::kIgnoreEos) != 0;
    if (!ignores_eos && token == params.eos_token_id) return proto::kStoppedByEos;
    const auto& stops = request.stop_ids;
    if (std::find(stops.begin(), stops.end(), token) != stops.end()) return proto::kStoppedByToken;
    const std::size_t outputs = request.output.size() + 1;
    const bool enough = params.max_tokens > 0 && outputs >= params.max_tokens;
    const bool full = request.prompt.size() + outputs >= request.max_length;
    return enough || full ? std::uint16_t{proto::kStoppedByLength} : std::uint16_t{0};
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
    decision.flags =
        static_cast<std::uint16_t>(kind_flag(params) | stop_flag(params, request, decision.token));
    return DecisionError::none;
}

}  // namespace

Decision decide(const RowView& view, const Request& request, SequenceState& state,
                Workspace& workspace) noexcept {
    // A copy: what was checked must be what is used, and the original lies in shared memory.
    const SamplingParams params = *request.params;
    workspace.answer_space = {};
    workspace.weighed = {};
    workspace.chords = {};
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
