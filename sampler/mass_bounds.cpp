// Compiled once for each instruction set and chosen at run time.
#include "sampler/mass_bounds.h"

#include <algorithm>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sampler/mass_bounds.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sampler/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Floats, and the doubles of one half of them.
#if HWY_TARGET == HWY_SCALAR
using BoundFloats = hn::CappedTag<float, 1>;
using BoundLanes = hn::CappedTag<double, 1>;
#else
using BoundFloats = hn::CappedTag<float, 16>;
using BoundLanes = hn::Repartition<double, BoundFloats>;
#endif
using BoundVector = hn::Vec<hn::RebindToUnsigned<BoundLanes>>;

// MassBound::of, operation for operation: the weights first, then the masses.
HWY_INLINE hn::Vec<BoundFloats> weights_of(const float* HWY_RESTRICT values, const MassBound& bound) {
    const BoundFloats d;
    const hn::RebindToSigned<BoundFloats> codes;
    const auto c = [d](float value) HWY_ATTR { return hn::Set(d, value); };
    const auto scaled = hn::Mul(hn::Sub(hn::LoadU(d, values), c(bound.reference)), c(bound.slope));
    const auto clamped = hn::Min(hn::Max(scaled, c(MassBound::kLeastBits)), c(0.0F));
    const auto bits = hn::Add(clamped, c(MassBound::kBias));
    return hn::BitCast(d, hn::ConvertTo(codes, hn::Mul(bits, c(MassBound::kMantissa))));
}

template <class V>
HWY_INLINE BoundVector masses_of(V weights) {
    const BoundLanes d;
    const hn::RebindToUnsigned<BoundLanes> du;
    const auto weight = hn::PromoteTo(d, weights);
    const auto rounded = hn::Add(hn::Mul(weight, hn::Set(d, kMassUnit)), hn::Set(d, kMassRounder));
    return hn::Sub(hn::BitCast(du, rounded), hn::Set(du, kMassRounderBits));
}

// Hands the bounds of as many values as BoundFloats holds to `take`, half by half, with their place.
template <class Take>
HWY_INLINE void each_half(const float* HWY_RESTRICT values, const MassBound& bound, Take take) {
    const auto weights = weights_of(values, bound);
#if HWY_TARGET == HWY_SCALAR
    take(masses_of(weights), 0);
#else
    const hn::Half<BoundFloats> half;
    take(masses_of(hn::LowerHalf(half, weights)), 0);
    take(masses_of(hn::UpperHalf(half, weights)), hn::Lanes(half));
#endif
}

HWY_INLINE Mass sum_of_bounds(BoundVector bounds) {
    const hn::RebindToUnsigned<BoundLanes> du;
    HWY_ALIGN Mass each[8];
    hn::Store(bounds, du, each);
    Mass total = 0;
    for (std::size_t lane = 0; lane < hn::Lanes(du); ++lane) total += each[lane];
    return total;
}

Mass BoundGroup(const float* HWY_RESTRICT values, std::size_t count, const MassBound& bound,
                Mass* HWY_RESTRICT masses) {
    const hn::RebindToUnsigned<BoundLanes> du;
    const std::size_t lanes = hn::Lanes(BoundFloats());
    auto sum = hn::Zero(du);
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        each_half(values + i, bound, [&](BoundVector each, std::size_t at) HWY_ATTR {
            hn::StoreU(each, du, masses + i + at);
            sum = hn::Add(sum, each);
        });
    }
    Mass total = sum_of_bounds(sum);
    for (; i < count; ++i) total += masses[i] = bound.of(values[i]);
    return total;
}

Mass BoundEach(const float* HWY_RESTRICT values, std::size_t count, const MassBound& bound,
               Mass* HWY_RESTRICT masses, Mass* HWY_RESTRICT sums) {
    Mass total = 0;
    for (std::size_t first = 0; first < count; first += kBoundGroup) {
        const std::size_t some = std::min<std::size_t>(kBoundGroup, count - first);
        const Mass sum = BoundGroup(values + first, some, bound, masses + first);
        sums[first / kBoundGroup] = sum;
        total += sum;
    }
    return total;
}

Mass BoundBlock(proto::Dtype dtype, const std::byte* HWY_RESTRICT block, const MassBound& bound) {
    const hn::RebindToUnsigned<BoundLanes> du;
    HWY_ALIGN float values[kBlock];
    WidenBlock(dtype, block, values);
    auto sum = hn::Zero(du);
    for (std::size_t i = 0; i < kBlock; i += hn::Lanes(BoundFloats())) {
        each_half(values + i, bound,
                  [&](BoundVector each, std::size_t) HWY_ATTR { sum = hn::Add(sum, each); });
    }
    return sum_of_bounds(sum);
}

}  // namespace croupier::sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace croupier::sampler {

HWY_EXPORT(BoundEach);
HWY_EXPORT(BoundBlock);

Mass bound_each(std::span<const float> values, const MassBound& bound, std::span<Mass> masses,
                std::span<Mass> sums) noexcept {
    return HWY_DYNAMIC_DISPATCH(BoundEach)(values.data(), values.size(), bound, masses.data(), sums.data());
}

Mass bound_block(const BlockedRow& row, std::uint32_t block, const MassBound& bound) noexcept {
    return HWY_DYNAMIC_DISPATCH(BoundBlock)(row.dtype, row.block(block), bound);
}

}  // namespace croupier::sampler
#endif  // HWY_ONCE
