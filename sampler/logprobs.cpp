#include "sampler/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "sampler/canonical_order.h"
#include "sampler/formulas.h"
#include "sampler/log.h"
#include "sampler/row_mass.h"
#include "sampler/row_scan.h"

namespace croupier::sampler {
namespace {

// What is left of a row may be one token, and then rounding alone would put it above 0.
float logprob_from(double value) {
    return std::min(static_cast<float>(value), 0.0F);
}

void answer(Workspace& workspace, std::uint32_t count) {
    workspace.answer_space.logprobs = workspace.logprobs.first(count);
}

// Behind the drawn token's own, in canonical order; returns how many there are with it.
template <class LogprobOf>
std::uint32_t list_best(std::span<const Candidate> best, LogprobOf logprob_of, Workspace& workspace) {
    std::uint32_t count = 1;
    std::uint32_t rank = 1;
    for (const Candidate& each : best) {
        if (count > 1 && each.value < best[count - 2].value) rank = count;
        workspace.logprobs[count++] = {static_cast<std::int32_t>(each.token), logprob_of(each.value), rank};
    }
    return count;
}

}  // namespace

float processed_logprobs(const proto::SamplingParams& params, const Candidate& drawn, std::uint32_t rank,
                         const Distribution& distribution, std::span<const Candidate> first,
                         Workspace& workspace) {
    const double log_of_total = log_total(distribution.total);
    const auto logprob_of = [&](double value) {
        return logprob_from(distribution.weigher.exponent(value) - log_of_total);
    };
    const RankedLogprob own = {static_cast<std::int32_t>(drawn.token), logprob_of(drawn.value), rank};
    const auto listed = first.first(std::min<std::size_t>(params.logprobs, first.size()));
    const std::uint32_t count = list_best(listed, logprob_of, workspace);
    workspace.logprobs[0] = own;
    if (params.logprobs > 0) answer(workspace, count);
    return own.logprob;
}

float row_logprobs(const proto::SamplingParams& params, const Candidate& drawn, double scale,
                   const BlockedRow& row, const Request& request, CandidateSearch& search,
                   Workspace& workspace) {
    const std::uint32_t best = params.logprobs;
    const double value = row.value_at(drawn.token);
    Pruning pruning;
    pruning.top_k = static_cast<std::int32_t>(std::max(best, 1U));
    double maximum = largest_of(workspace.block_max.first(row.blocks));
    std::uint32_t found = 0;
    if (best > 0 || !request.mask.empty()) {
        found = search.search(pruning).count;
        const auto some = workspace.candidates.first(found);
        found = std::min(found, static_cast<std::uint32_t>(pruning.top_k));
        std::partial_sort(some.begin(), some.begin() + found, some.end(), canonically_before);
        // Of the tokens that the mask allows; without a mask the blocks' maxima tell it, whether the blocks
        // are there or not.
        if (found > 0 && !request.mask.empty()) maximum = some.front().value;
    }
    const MassQuery all = {row, request.mask, maximum, scale};
    const double log_of_total = log_positive(total_weight(all, workspace.weighed));
    const auto logprob_of = [&](double logit) {
        return logprob_from((logit - maximum) * scale - log_of_total);
    };
    if (best == 0) return logprob_of(value);

    const auto list = workspace.candidates.first(std::min(found, best));
    const std::uint32_t count = list_best(list, logprob_of, workspace);
    const auto own = static_cast<float>(value);
    const float above = std::nextafter(own, std::numeric_limits<float>::infinity());
    const std::uint32_t own_rank = request::counts_ties(params)
                                       ? count_allowed(row, request.mask, own, workspace)
                                       : 1 + count_allowed(row, request.mask, above, workspace);
    workspace.logprobs[0] = {static_cast<std::int32_t>(drawn.token), logprob_of(value), own_rank};
    answer(workspace, count);
    return workspace.logprobs[0].logprob;
}

}  // namespace croupier::sampler
