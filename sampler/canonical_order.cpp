#include "sampler/canonical_order.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <utility>

#include "sampler/rank_sort.h"

namespace croupier::sampler {
namespace {

constexpr std::uint32_t kRanks = 1U << 16U;
constexpr std::uint32_t kSign = 0x8000U;
// Below it the counts of all ranks cost more than a comparison sort does in all.
constexpr std::size_t kManyCandidates = 1024;

std::uint32_t descending(bool negative, std::uint32_t magnitude) {
    return negative ? kSign + magnitude : kSign - 1 - magnitude;
}

// Ascends as values descend: sign, exponent and the first bits of the mantissa, as a bf16 has them. Values
// that no float holds, and zeros of either sign, share a rank with their neighbours.
std::uint32_t coarse_rank(const Candidate& candidate) {
    constexpr std::uint32_t kSmallest = 896;  // the exponent of a double that a float no longer has
    constexpr std::uint32_t kMagnitude = 0x7FFFU;
    const auto bits = std::bit_cast<std::uint64_t>(candidate.value);
    const auto magnitude = static_cast<std::uint32_t>(bits >> 45U & 0x3FFFFU);
    if (magnitude <= kSmallest << 7U) return descending(false, 0);
    return descending(bits >> 63U != 0, std::min(magnitude - (kSmallest << 7U), kMagnitude));
}

// Calls visit(rank) for each count that is not 0. Most ranks have none, those of values near 0 above all.
template <class Visit>
void visit_ranks(std::span<std::uint32_t> counts, Visit visit) {
    constexpr std::uint32_t kChunk = 64;
    for (std::uint32_t first = 0; first < kRanks; first += kChunk) {
        std::uint32_t any = 0;
        for (std::uint32_t i = 0; i < kChunk; ++i) any |= counts[first + i];
        for (std::uint32_t i = 0; any != 0 && i < kChunk; ++i) {
            if (counts[first + i] != 0) visit(first + i);
        }
    }
}

// Whether those of the rank have the rank's bits in common.
bool has_own_bits(std::uint32_t rank) {
    return rank != descending(false, 0) && rank != 0 && rank != kRanks - 1;
}

// Moves the candidates into the order of their ranks; those of one rank stay in theirs. Returns where each
// rank ends.
std::span<const std::uint32_t> order_by_rank(std::span<const Candidate> from, std::span<Candidate> to,
                                             std::span<std::uint32_t> counts, std::span<std::uint32_t> ends) {
    for (const Candidate& each : from) ++counts[coarse_rank(each)];
    std::uint32_t start = 0;
    std::size_t ranks = 0;
    visit_ranks(counts, [&](std::uint32_t rank) {
        const std::uint32_t count = counts[rank];
        counts[rank] = start;
        start += count;
        ends[ranks++] = start;
    });
    for (const Candidate& each : from) to[counts[coarse_rank(each)]++] = each;
    visit_ranks(counts, [&](std::uint32_t rank) { counts[rank] = 0; });
    return ends.first(ranks);
}

void insert_each(std::span<Candidate> nearly_sorted) {
    for (std::size_t i = 1; i < nearly_sorted.size(); ++i) {
        const Candidate moved = nearly_sorted[i];
        std::size_t place = i;
        for (; place > 0 && canonically_before(moved, nearly_sorted[place - 1]); --place)
            nearly_sorted[place] = nearly_sorted[place - 1];
        nearly_sorted[place] = moved;
    }
}

// Puts each candidate to where it would stand if the values lay evenly. Returns how many share a place at
// most: equal ones all do.
std::uint32_t spread_out(std::span<const Candidate> from, std::span<Candidate> to,
                         std::span<std::uint32_t> places) {
    const auto by_value = [](const Candidate& a, const Candidate& b) { return a.value < b.value; };
    const auto [least, most] = std::minmax_element(from.begin(), from.end(), by_value);
    const double highest = most->value;
    if (least->value == highest) {
        std::copy(from.begin(), from.end(), to.begin());
        return static_cast<std::uint32_t>(from.size());
    }
    const double scale = static_cast<double>(places.size() - 1) / (highest - least->value);
    const auto place_of = [&](const Candidate& each) {
        return static_cast<std::size_t>((highest - each.value) * scale);
    };
    std::fill(places.begin(), places.end(), 0);
    for (const Candidate& each : from) ++places[place_of(each)];
    std::uint32_t start = 0;
    std::uint32_t largest = 0;
    for (std::uint32_t& place : places) {
        largest = std::max(largest, place);
        start += std::exchange(place, start);
    }
    for (const Candidate& each : from) to[places[place_of(each)]++] = each;
    return largest;
}

// By the ids, if they do not ascend yet, and by the bits of their values that those of a rank do not have in
// common; the lowest bits first, each time leaving equal ones in their order.
void sort_by_bits(std::span<Candidate> from, std::span<Candidate> to, std::span<std::uint32_t> places) {
    constexpr unsigned kBits = 12;
    constexpr unsigned kOwnBits = 45;
    constexpr std::size_t kDigits = std::size_t{1} << kBits;
    const std::span<std::uint32_t> starts = places.first(kDigits);
    std::span<Candidate> source = from;
    std::span<Candidate> target = to;
    const auto pass = [&](auto digit_of) {
        std::fill(starts.begin(), starts.end(), 0);
        for (const Candidate& each : source) ++starts[digit_of(each)];
        std::uint32_t start = 0;
        for (std::uint32_t& each : starts) start += std::exchange(each, start);
        for (const Candidate& each : source) target[starts[digit_of(each)]++] = each;
        std::swap(source, target);
    };
    std::uint32_t ids = 0;
    const auto by_id = [](const Candidate& a, const Candidate& b) { return a.token < b.token; };
    if (!std::is_sorted(from.begin(), from.end(), by_id))
        ids = std::max_element(from.begin(), from.end(), by_id)->token;
    for (unsigned shift = 0; shift < 32 && ids >> shift != 0; shift += kBits)
        pass([&](const Candidate& each) { return (each.token >> shift) % kDigits; });
    const std::uint64_t falls = std::signbit(from.front().value) ? 0 : kDigits - 1;
    for (unsigned shift = 0; shift < kOwnBits; shift += kBits) {
        pass([&](const Candidate& each) {
            return (std::bit_cast<std::uint64_t>(each.value) >> shift ^ falls) % kDigits;
        });
    }
    if (source.data() != to.data()) std::copy(source.begin(), source.end(), to.begin());
}

// Candidates of one rank lie in `from`, and end in `to`.
void sort_rank(std::span<Candidate> from, std::span<Candidate> to, std::span<std::uint32_t> places) {
    constexpr std::size_t kFew = 24;
    constexpr std::size_t kMany = 4096;
    constexpr std::uint32_t kUneven = 48;
    const bool sorted = std::is_sorted(from.begin(), from.end(), canonically_before);
    if (!sorted && from.size() > kFew && has_own_bits(coarse_rank(from.front()))) {
        const std::uint32_t largest =
            spread_out(from, to, places.first(std::min(from.size(), places.size())));
        if (largest <= kUneven) return insert_each(to);
        if (from.size() > kMany) return sort_by_bits(from, to, places);
    } else {
        std::copy(from.begin(), from.end(), to.begin());
        if (sorted) return;
        if (from.size() <= kFew) return insert_each(to);
    }
    std::sort(to.begin(), to.end(), canonically_before);
}

void sort_many(Workspace& workspace, std::span<Candidate> all) {
    const auto room = workspace.sort_buffer.first(all.size());
    const auto ends = order_by_rank(all, room, workspace.value_counts, workspace.rank_ends.first(kRanks));
    std::size_t begin = 0;
    for (const std::uint32_t end : ends) {
        sort_rank(room.subspan(begin, end - begin), all.subspan(begin, end - begin),
                  workspace.rank_ends.last(kRanks));
        begin = end;
    }
}

}  // namespace

void sort_canonically(Workspace& workspace, std::uint32_t count) {
    const auto candidates = workspace.candidates.first(count);
    if (std::is_sorted(candidates.begin(), candidates.end(), canonically_before)) return;
    if (count <= kMostRanked) {
        rank_sort(candidates, workspace.sort_buffer);
    } else if (count <= kManyCandidates) {
        std::sort(candidates.begin(), candidates.end(), canonically_before);
    } else {
        sort_many(workspace, candidates);
    }
}

void sort_best(Workspace& workspace, std::uint32_t count, std::uint32_t best) {
    const auto candidates = workspace.candidates.first(count);
    if (count <= kManyCandidates || best > count / 2) return sort_canonically(workspace, count);
    if (std::is_sorted(candidates.begin(), candidates.end(), canonically_before)) return;
    const double floor = floor_for_best(candidates, best);
    std::uint32_t reaching = 0;
    std::uint32_t below = 0;
    for (const Candidate each : candidates) {
        candidates[reaching] = each;
        workspace.sort_buffer[below] = each;
        const bool reaches = each.value >= floor;
        reaching += reaches ? 1 : 0;
        below += reaches ? 0 : 1;
    }
    std::copy_n(workspace.sort_buffer.begin(), below, candidates.begin() + reaching);
    sort_canonically(workspace, reaching);
}

}  // namespace croupier::sampler
