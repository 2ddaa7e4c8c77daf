#include "sampler/rank_sort.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "sampler/canonical_order.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sampler/rank_sort.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Values = hn::CappedTag<double, 8>;

// For each value, how many are larger. Two at a time share what they load.
void CountLarger(const double* HWY_RESTRICT values, std::size_t count, std::uint32_t* HWY_RESTRICT larger) {
    const Values d;
    const hn::RebindToSigned<Values> di;
    for (std::size_t i = 0; i < count; i += 2) {
        const auto first = hn::Set(d, values[i]);
        const auto second = hn::Set(d, values[i + 1]);
        auto above_first = hn::Zero(di);
        auto above_second = hn::Zero(di);
        for (std::size_t j = 0; j < count; j += hn::Lanes(d)) {
            const auto some = hn::Load(d, values + j);
            above_first = hn::Sub(above_first, hn::BitCast(di, hn::VecFromMask(d, hn::Gt(some, first))));
            above_second = hn::Sub(above_second, hn::BitCast(di, hn::VecFromMask(d, hn::Gt(some, second))));
        }
        larger[i] = static_cast<std::uint32_t>(hn::GetLane(hn::SumOfLanes(di, above_first)));
        larger[i + 1] = static_cast<std::uint32_t>(hn::GetLane(hn::SumOfLanes(di, above_second)));
    }
}

std::size_t CountReaching(const Candidate* HWY_RESTRICT candidates, std::size_t count, double floor) {
    const Values d;
    const hn::RebindToSigned<Values> di;
    const std::size_t lanes = hn::Lanes(d);
    const auto bound = hn::Set(d, floor);
    auto counts = hn::Zero(di);
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        auto values = hn::Undefined(d);
        auto ids = values;
        // A candidate is as large as two values, the first of which is one.
        hn::LoadInterleaved2(d, &candidates[i].value, values, ids);
        counts = hn::Sub(counts, hn::BitCast(di, hn::VecFromMask(d, hn::Ge(values, bound))));
    }
    auto total = static_cast<std::size_t>(hn::GetLane(hn::SumOfLanes(di, counts)));
    for (; i < count; ++i) total += candidates[i].value >= floor ? 1 : 0;
    return total;
}

}  // namespace croupier::sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace croupier::sampler {

static_assert(sizeof(Candidate) == 2 * sizeof(double) && offsetof(Candidate, value) == 0);

HWY_EXPORT(CountLarger);
HWY_EXPORT(CountReaching);

double floor_for_best(std::span<const Candidate> candidates, std::uint32_t k) noexcept {
    const auto [least, most] =
        std::minmax_element(candidates.begin(), candidates.end(),
                            [](const Candidate& a, const Candidate& b) { return a.value < b.value; });
    double low = least->value;
    double high = most->value;
    std::size_t at_low = candidates.size();
    for (int looks = 0; looks < 12 && at_low > k + k / 8; ++looks) {
        const double middle = low + (high - low) * 0.5;
        const std::size_t reaching =
            HWY_DYNAMIC_DISPATCH(CountReaching)(candidates.data(), candidates.size(), middle);
        (reaching >= k ? low : high) = middle;
        if (reaching >= k) at_low = reaching;
    }
    return low;
}

void rank_sort(std::span<Candidate> candidates, std::span<Candidate> room) noexcept {
    const std::size_t count = candidates.size();
    alignas(64) double values[kMostRanked + 8];
    std::uint32_t places[kMostRanked + 1];
    std::uint32_t taken[kMostRanked] = {};
    for (std::size_t i = 0; i < count; ++i) values[i] = candidates[i].value;
    std::fill_n(values + count, 8, -std::numeric_limits<double>::infinity());
    HWY_DYNAMIC_DISPATCH(CountLarger)(values, count, places);
    for (std::size_t i = 0; i < count; ++i) {
        room[places[i] + taken[places[i]]++] = candidates[i];
    }
    // Equal values stand as they came, which is mostly by id already.
    for (std::size_t i = 1; i < count; ++i) {
        for (std::size_t j = i; j > 0 && canonically_before(room[j], room[j - 1]); --j) {
            std::swap(room[j], room[j - 1]);
        }
    }
    std::copy_n(room.begin(), count, candidates.begin());
}

}  // namespace croupier::sampler
#endif  // HWY_ONCE
