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

// For each value, how many are larger.
void CountLarger(const double* HWY_RESTRICT values, std::size_t count, std::uint32_t* HWY_RESTRICT larger) {
    const Values d;
    const hn::RebindToSigned<Values> di;
    for (std::size_t i = 0; i < count; ++i) {
        const auto own = hn::Set(d, values[i]);
        auto sum = hn::Zero(di);
        for (std::size_t j = 0; j < count; j += hn::Lanes(d)) {
            const auto above = hn::Gt(hn::Load(d, values + j), own);
            sum = hn::Sub(sum, hn::BitCast(di, hn::VecFromMask(d, above)));
        }
        larger[i] = static_cast<std::uint32_t>(hn::GetLane(hn::SumOfLanes(di, sum)));
    }
}

}  // namespace croupier::sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace croupier::sampler {

HWY_EXPORT(CountLarger);

void rank_sort(std::span<Candidate> candidates, std::span<Candidate> room) noexcept {
    const std::size_t count = candidates.size();
    alignas(64) double values[kMostRanked + 8];
    std::uint32_t places[kMostRanked];
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
