#include "sampler/candidates.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "request/lean_want.h"
#include "sampler/canonical_order.h"
#include "sampler/changed_tokens.h"
#include "sampler/float_bounds.h"
#include "sampler/log.h"
#include "sampler/rank_sort.h"
#include "sampler/row_scan.h"

namespace croupier::sampler {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();
constexpr float kNoFloor = -std::numeric_limits<float>::infinity();
constexpr float kNoCeiling = std::numeric_limits<float>::infinity();
constexpr std::size_t kGroups = 512;
// To begin a search with, where not many tokens are looked for.
constexpr std::uint32_t kFewBlocks = 4;

std::uint64_t bit_of(std::uint32_t token) {
    return std::uint64_t{1} << (token % 64);
}

}  // namespace

ValueRange min_p_range(double min_p, double low_scale, double high_scale, double maximum) noexcept {
    // The logarithm is of normal numbers only.
    const double reach = log_positive(std::max(min_p, std::numeric_limits<double>::min()));
    const double slack = 1e-9 * (1.0 + std::abs(maximum) + std::abs(reach / low_scale));
    return {maximum + reach / low_scale - slack, maximum + reach / high_scale + slack};
}

double min_p_floor(double min_p, double scale, double maximum) noexcept {
    return min_p_range(min_p, scale, scale, maximum).low;
}

float floor_for_blocks(std::span<const float> block_max, std::uint32_t wanted) noexcept {
    if (wanted >= block_max.size()) return kNoFloor;
    // What few groups of blocks reach, as many blocks reach and hardly more: few of the best share a group.
    std::array<float, kGroups> group_max;
    if (block_max.size() > 2 * kGroups && wanted <= kGroups / 4) {
        fold_maxima(block_max, group_max);
        block_max = group_max;
    }
    float high = largest_of(block_max);
    if (wanted == 1) return high;
    std::uint32_t at_high = 1;
    // Four nats below the best is where the search starts: most rows' best blocks lie closer together.
    float low = high - 4.0F;
    std::uint32_t at_low = count_at_least(block_max, low);
    for (float step = 4.0F; at_low < wanted; step *= 4.0F) {
        if (!(high - low < 1e6F)) return kNoFloor;
        high = low;
        at_high = std::max(at_low, 1U);
        low -= step;
        at_low = count_at_least(block_max, low);
    }
    // A quarter more than wanted is near enough: to halve on would cost more than the blocks it saves. Counts
    // grow about exponentially with the distance from the best, so that their logarithms tell where to look.
    const float target = std::log2(static_cast<float>(wanted) * 1.1F);
    for (int looks = 0; looks < 16 && at_low > wanted + wanted / 4; ++looks) {
        const float log_low = std::log2(static_cast<float>(at_low));
        const float log_high = std::log2(static_cast<float>(at_high));
        const float share = log_low > log_high ? (log_low - target) / (log_low - log_high) : 0.5F;
        const float middle = low + (high - low) * std::clamp(share, 0.1F, 0.9F);
        const std::uint32_t at_middle = count_at_least(block_max, middle);
        if (at_middle >= wanted) {
            low = middle;
            at_low = at_middle;
        } else {
            high = middle;
            at_high = std::max(at_middle, 1U);
        }
    }
    return low;
}

bool CandidateSearch::is_listed(std::uint32_t token) const {
    return (workspace_.listed[token / 64] & bit_of(token)) != 0;
}

void CandidateSearch::list(std::uint32_t token) {
    workspace_.listed[token / 64] |= bit_of(token);
}

void CandidateSearch::take(std::uint32_t token, float raw, Adjustments on, std::uint32_t& count) {
    const double value = adjust_(token, raw, on);
    workspace_.candidates[count] = {value, token};
    count += value > kNothing ? 1 : 0;
}

// Where the best entries are listed, how high a token has to end to pass beside them.
double CandidateSearch::least_beside_list(const Pruning& pruning) {
    if (pruning.none() || !row_.lean->has_list()) return pruning.least;
    Gathered some;
    gather({row_.lean->listed_from(), kNoCeiling, pruning.least}, pruning.adjustments, some);
    return std::max(pruning.least, keep_needed(pruning, some.count));
}

// Of a row that is there in part, those that can pass. What is known of them already tells how high they have
// to end.
std::span<const Candidate> CandidateSearch::list_raised_above(const Pruning& pruning) {
    double least = least_beside_list(pruning);
    const double reach = pruning.min_p > 0.0 ? min_p_floor(pruning.min_p, pruning.scale, 0.0) : kNothing;
    constexpr double kRounding = 1e-9;
    const auto take = [&](double value) {
        least = std::max(least, value + reach - kRounding * (1.0 + std::abs(value)));
    };
    const RaisedInPart raised = list_raised_in_part(
        adjust_, pruning.adjustments, row_, workspace_, workspace_.raised,
        [&](double most) { return most < least; }, take);
    const auto k = static_cast<std::size_t>(pruning.top_k);
    if (k > 0 && raised.known.size() >= k) {
        const auto kth = raised.known.begin() + static_cast<std::ptrdiff_t>(k - 1);
        std::nth_element(raised.known.begin(), kth, raised.known.end(), canonically_before);
        least = std::max(least, kth->value);
    }
    const auto end = std::partition(raised.unknown.begin(), raised.unknown.end(),
                                    [&](const Candidate& each) { return each.value >= least; });
    const auto needed = raised.unknown.first(static_cast<std::size_t>(end - raised.unknown.begin()));
    pruning.none() ? ask_for(row_, needed) : ask_for_highest(row_, needed);
    return raised.known;
}

// Tokens that end above where they stood can pass from below any floor: they are looked at in any case.
std::uint32_t CandidateSearch::take_raised(const Pruning& pruning) {
    const Adjustments on = pruning.adjustments;
    if (!on.rules) return 0;
    const bool in_part = row_.lean != nullptr && !adjust_.lowers_only(on);
    raised_ =
        in_part ? list_raised_above(pruning) : list_raised(adjust_, on, row_, workspace_, workspace_.raised);
    for (const Candidate& each : raised_) list(each.token);
    std::copy(raised_.begin(), raised_.end(), workspace_.candidates.begin());
    return static_cast<std::uint32_t>(raised_.size());
}

void CandidateSearch::forget_raised() {
    for (const Candidate& each : raised_) workspace_.listed[each.token / 64] = 0;
    raised_ = {};
}

Gathered CandidateSearch::at_least(float floor, Adjustments on) {
    Gathered result;
    // From no floor on, all are found in the order of their ids, raised or not.
    if (floor > kNoFloor) {
        Pruning pruning;
        pruning.least = static_cast<double>(floor);
        pruning.adjustments = on;
        result.count = take_raised(pruning);
    }
    gather({floor, kNoCeiling, kNothing}, on, result);
    forget_raised();
    return result;
}

std::uint32_t CandidateSearch::found_below(float ceiling, std::uint32_t found) {
    std::uint32_t below = 0;
    for (const Found& each : workspace_.found.first(found)) {
        workspace_.found[below] = each;
        below += each.value < ceiling ? 1 : 0;
    }
    return below;
}

// Adds to what was gathered; what is listed was taken already.
void CandidateSearch::gather(const Range& range, Adjustments on, Gathered& gathered) {
    std::uint32_t found = find_at_least(row_, range.floor, workspace_);
    if (range.ceiling < kNoCeiling) found = found_below(range.ceiling, found);
    // Few enough to stand in the nearest cache until they are adjusted: their counts come from all over the
    // vocabulary, one miss each.
    constexpr std::uint32_t kPrefetched = 512;
    if (on.penalties && found <= kPrefetched) {
        for (const Found& each : workspace_.found.first(found)) adjust_.prefetch(each.token);
    }
    const bool apart = !raised_.empty();
    std::uint32_t count = gathered.count;
    for (const Found& each : workspace_.found.first(found)) {
        if (apart && is_listed(each.token)) continue;
        // A row that is overwritten during the decision, which only a broken writer does, could hold more
        // than there are.
        if (count == workspace_.vocab) continue;
        const double value = adjust_(each.token, each.value, on);
        // Without a branch: whether a penalty is enough to drop a token cannot be predicted.
        workspace_.candidates[count] = {value, each.token};
        count += value > kNothing && value >= range.least ? 1 : 0;
    }
    gathered.count = count;
    workspace_.answer_space.candidates += found;
}

// In the order of the request, in which writers send their logits; one may come more than once.
Gathered CandidateSearch::listed_as_sent(Adjustments on) {
    Gathered result;
    for (const Slice& slice : row_.lean->slices) {
        const auto visit = [&](std::uint32_t token, const std::byte* elements, std::uint32_t entry) {
            if (is_listed(token)) return;
            list(token);
            take(token, row_.value_in(elements, entry), on, result.count);
        };
        if (slice.entries > 0) LeanBlocks::each_allowed(slice, request_.allowed_ids, visit);
    }
    for (const std::int32_t token : request_.allowed_ids)
        workspace_.listed[static_cast<std::uint32_t>(token) / 64] = 0;
    workspace_.answer_space.candidates += result.count;
    return result;
}

// In the order of their ids, in which the row is read fastest.
Gathered CandidateSearch::listed(Adjustments on) {
    if (row_.lean != nullptr && row_.lean->lists_allowed) return listed_as_sent(on);
    std::uint32_t first = row_.vocab - 1;
    std::uint32_t last = 0;
    for (const std::int32_t token : request_.allowed_ids) {
        const auto id = static_cast<std::uint32_t>(token);
        list(id);
        first = std::min(first, id);
        last = std::max(last, id);
    }
    Gathered result;
    for (std::uint32_t word = first / 64; word <= last / 64; ++word) {
        std::uint64_t ids = std::exchange(workspace_.listed[word], 0);
        if (ids == 0) continue;
        // Of a row that is there in part, a token may be there without its block.
        const std::byte* const elements = row_.lean == nullptr ? row_.block(word) : nullptr;
        for (; ids != 0; ids &= ids - 1) {
            const auto entry = static_cast<std::uint32_t>(std::countr_zero(ids));
            const std::uint32_t token = word * kBlock + entry;
            const float raw = elements != nullptr ? row_.value_in(elements, entry) : row_.value_at(token);
            take(token, raw, on, result.count);
        }
    }
    workspace_.answer_space.candidates += result.count;
    return result;
}

void CandidateSearch::drop_below(double floor, std::uint32_t& count) {
    std::uint32_t kept = 0;
    for (const Candidate& each : workspace_.candidates.first(count)) {
        workspace_.candidates[kept] = each;
        kept += each.value >= floor ? 1 : 0;
    }
    count = kept;
}

// Leaves the first k, of k or more. Empty: there are fewer.
std::optional<double> CandidateSearch::cut_to_best(std::uint32_t k, std::uint32_t& count) {
    if (k == 0 || count < k) return std::nullopt;
    const auto begin = workspace_.candidates.begin();
    if (count > k + k / 4) drop_below(floor_for_best(workspace_.candidates.first(count), k), count);
    if (count <= kMostRanked) {
        sort_canonically(workspace_, count);
    } else {
        std::nth_element(begin, begin + (k - 1), begin + count, canonically_before);
    }
    count = k;
    return (begin + (k - 1))->value;
}

// Leaves what can pass, as far as these candidates tell, and returns a bound that it reaches.
double CandidateSearch::keep_needed(const Pruning& pruning, std::uint32_t& count) {
    double bound = kNothing;
    if (pruning.min_p > 0.0 && count > 0) {
        double best = kNothing;
        for (const Candidate& each : workspace_.candidates.first(count)) best = std::max(best, each.value);
        bound = min_p_floor(pruning.min_p, pruning.scale, best);
        drop_below(bound, count);
    }
    return std::max(bound, cut_to_best(static_cast<std::uint32_t>(pruning.top_k), count).value_or(kNothing));
}

Gathered CandidateSearch::prune(const Pruning& pruning) {
    // The best of them hold several of the best tokens each.
    constexpr std::uint32_t kManyBlocks = 96;
    const auto k = static_cast<std::uint32_t>(pruning.top_k);
    const std::span<const float> block_max = workspace_.block_max.first(row_.blocks);
    std::uint32_t wanted = std::clamp(k, kFewBlocks, kManyBlocks);
    if (k == 1) wanted = 1;
    // A quarter of the row at most: one unusual row must not make the next decision expensive.
    const bool penalises = adjust_.penalises(pruning.adjustments);
    if (penalises) wanted = std::max(wanted, std::min(adjust_.state().search_width(), row_.blocks / 4));
    Gathered gathered;
    gathered.count = take_raised(pruning);
    const float least = float_below(pruning.least);
    Range range = {std::max(first_floor(pruning, wanted), least), kNoCeiling, pruning.least};
    bool only_there = row_.lean != nullptr && wanted > 1 && range.floor > kNoFloor;
    const std::uint32_t asked_before = row_.asked();
    const std::uint32_t first_wanted = wanted;
    std::uint32_t rounds = 0;
    for (;;) {
        ++rounds;
        gather(range, pruning.adjustments, gathered);
        range.least = std::max(pruning.least, keep_needed(pruning, gathered.count));
        gathered.gave_up = pruning.gives_up && gathered.count > request::kMostSearched;
        const bool is_lowest = gathered.gave_up || range.floor == kNoFloor;
        if (row_.lacks_blocks()) {
            if (!is_lowest && range.least == kNothing) {
                range = {lower_floor(pruning, range, wanted *= 2), range.floor, kNothing};
                continue;
            }
            if (asked_before > 0 || ask_for_needed(pruning, range.least, first_wanted)) break;
        }
        // What was not found is below the floor, raw, and adjusted no higher.
        if (is_lowest || range.least >= static_cast<double>(range.floor)) break;
        // Lower, but not at once to a bound that few of the best, penalised, left far below: the next ones
        // raise it.
        if (!only_there) wanted *= 2;
        only_there = false;
        range = {lower_floor(pruning, range, wanted), range.floor, range.least};
    }
    forget_raised();
    // If a min-p's floor was guessed well, there is nothing to learn, and counting costs as much as guessing.
    // A void decision's result must not steer the next search.
    const bool guessed = pruning.min_p > 0.0 && rounds == 1;
    if (penalises && !guessed && !gathered.gave_up && !row_.lacks_blocks()) {
        adjust_.state().note_search_width(count_at_least(block_max, float_below(range.least)));
    }
    return gathered;
}

// Half as many again are near enough: to find out more nearly would cost as much.
bool CandidateSearch::few_reach(float floor, std::uint32_t wanted) const {
    return floor > kNoFloor &&
           count_at_least(workspace_.block_max.first(row_.blocks), floor) <= wanted + wanted / 2;
}

// The whole list is gathered first, so that a search that asks for blocks has already seen it. In a partial
// row without a list the search begins with the blocks that are there: they are often enough, and if they are
// no more than wanted, they tell where to stop. A min-p's floor is known if the largest entry stays where it
// stood.
float CandidateSearch::first_floor(const Pruning& pruning, std::uint32_t wanted) const {
    if (row_.lean != nullptr && row_.lean->has_list()) return row_.lean->listed_from();
    const std::span<const float> block_max = workspace_.block_max.first(row_.blocks);
    if (wanted == 1) return floor_for_blocks(block_max, wanted);
    if (pruning.min_p > 0.0) {
        const auto most = static_cast<double>(largest_entry(row_, request_.mask, block_max));
        const float likely = float_below(min_p_floor(pruning.min_p, pruning.scale, most));
        if (few_reach(likely, wanted)) return likely;
    }
    const float there_from = row_.lean != nullptr ? row_.lean->there_from() : kNoFloor;
    if (wanted > kFewBlocks && few_reach(there_from, wanted)) return there_from;
    return std::max(there_from, floor_for_blocks(block_max, wanted));
}

// It may come out higher than for fewer blocks, which are counted by groups: what lies above the last floor
// is taken already.
float CandidateSearch::lower_floor(const Pruning& pruning, const Range& range, std::uint32_t wanted) const {
    const float needed = float_below(range.least);
    if (pruning.min_p > 0.0 && few_reach(needed, wanted)) return std::min(range.floor, needed);
    const float floor = floor_for_blocks(workspace_.block_max.first(row_.blocks), wanted);
    return std::min(range.floor, std::max(floor, needed));
}

// Asks for absent blocks that can hold a passing token, judging by those that are there, and for no others.
// The best k tokens stand in at most k blocks, or a few more if penalties lower some; if many may pass, the
// first ones raise the bound. Returns false if no absent block can hold one.
bool CandidateSearch::ask_for_needed(const Pruning& pruning, double least, std::uint32_t wanted) {
    const auto k = static_cast<std::uint32_t>(pruning.top_k);
    std::uint32_t most = 4 * wanted;
    if (k > 0) most = std::max(k, wanted) + (adjust_.penalises(pruning.adjustments) ? k / 2 : 0);
    row_.lean->forget_asked();
    const float floor = floor_for_blocks(workspace_.block_max.first(row_.blocks), most);
    (void)find_at_least(row_, std::max(floor, float_below(least)), workspace_);
    if (!row_.lacks_blocks()) (void)find_at_least(row_, float_below(least), workspace_);
    return row_.lacks_blocks();
}

Gathered CandidateSearch::search(const Pruning& pruning) {
    if (pruning.adjustments.rules && !request_.allowed_ids.empty()) return listed(pruning.adjustments);
    return pruning.none() ? at_least(float_below(pruning.least), pruning.adjustments) : prune(pruning);
}

}  // namespace croupier::sampler
