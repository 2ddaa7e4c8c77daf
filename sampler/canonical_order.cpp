#include "sampler/canonical_order.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

#include "sampler/rank_sort.h"

namespace croupier::sampler {
namespace {

constexpr std::uint32_t kBuckets = 1U << kDigitBits;
constexpr std::uint32_t kTokenDigits = 2;
// Below it the tables of a radix sort cost more to clear and sum than a comparison sort does in all.
constexpr std::uint32_t kRadixFrom = 2048;

// Ascending keys are descending values. A negative value's magnitude is added, not complemented: the zero
// bits that end every widened bf16 or fp16 stay zero bits, and their digits need no pass.
std::uint64_t descending_key(double value) {
    constexpr std::uint64_t kSign = std::uint64_t{1} << 63U;
    const auto bits = std::bit_cast<std::uint64_t>(value);
    return (bits & kSign) != 0 ? kSign + (bits & ~kSign) : kSign - bits;
}

std::uint32_t digit_of(const Candidate& candidate, std::uint32_t digit) {
    const std::uint64_t key = digit < kTokenDigits
                                  ? candidate.token >> (digit * kDigitBits)
                                  : descending_key(candidate.value) >> ((digit - kTokenDigits) * kDigitBits);
    return static_cast<std::uint32_t>(key) & (kBuckets - 1);
}

// Returns whether the tokens already ascend.
bool count_digits(std::span<const Candidate> candidates, std::span<std::uint32_t> counts) {
    std::fill(counts.begin(), counts.end(), 0);
    bool ascending = true;
    std::uint32_t previous = 0;
    for (const Candidate& candidate : candidates) {
        ascending = ascending && candidate.token >= previous;
        previous = candidate.token;
        for (std::uint32_t digit = 0; digit < kSortDigits; ++digit) {
            ++counts[digit * kBuckets + digit_of(candidate, digit)];
        }
    }
    return ascending;
}

void scatter(std::span<const Candidate> from, std::span<Candidate> to, std::uint32_t digit,
             std::span<std::uint32_t> starts) {
    std::uint32_t start = 0;
    for (std::uint32_t& bucket : starts) start += std::exchange(bucket, start);
    for (const Candidate& candidate : from) to[starts[digit_of(candidate, digit)]++] = candidate;
}

// Least significant digit first, each pass stable; a digit that all candidates share needs no pass.
void radix_sort(Workspace& workspace, std::uint32_t count, std::uint32_t digits) {
    std::span<Candidate> from = workspace.candidates.first(count);
    std::span<Candidate> to = workspace.sort_buffer.first(count);
    const bool ascending = count_digits(from, workspace.digit_counts);
    for (std::uint32_t digit = ascending ? kTokenDigits : 0; digit < digits; ++digit) {
        const auto counts = workspace.digit_counts.subspan(std::size_t{digit} * kBuckets, kBuckets);
        if (counts[digit_of(from.front(), digit)] == count) continue;
        scatter(from, to, digit, counts);
        std::swap(from, to);
    }
    if (from.data() != workspace.candidates.data()) std::copy(from.begin(), from.end(), to.begin());
}

}  // namespace

void sort_canonically(Workspace& workspace, std::uint32_t count) {
    const auto candidates = workspace.candidates.first(count);
    if (std::is_sorted(candidates.begin(), candidates.end(), canonically_before)) return;
    if (count <= kMostRanked) {
        rank_sort(candidates, workspace.sort_buffer);
    } else if (count < kRadixFrom) {
        std::sort(candidates.begin(), candidates.end(), canonically_before);
    } else {
        radix_sort(workspace, count, kSortDigits);
    }
}

void sort_best(Workspace& workspace, std::uint32_t count, std::uint32_t best) {
    const auto candidates = workspace.candidates.first(count);
    if (count < kRadixFrom || best > count / 2) return sort_canonically(workspace, count);
    if (std::is_sorted(candidates.begin(), candidates.end(), canonically_before)) return;
    const double floor = floor_for_best(candidates, best);
    // Both parts keep their order: tokens that ascend need no pass of their own.
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

void sort_by_token(Workspace& workspace, std::uint32_t count) {
    if (count >= kRadixFrom) return radix_sort(workspace, count, kTokenDigits);
    const auto candidates = workspace.candidates.first(count);
    std::sort(candidates.begin(), candidates.end(),
              [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
}

}  // namespace croupier::sampler
