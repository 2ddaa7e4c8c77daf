// Masses of sampler/mass.h for a vector of logits. Included once for each instruction set (Highway's
// foreach_target).
#if defined(CROUPIER_SAMPLER_MASS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROUPIER_SAMPLER_MASS_INL_H_
#undef CROUPIER_SAMPLER_MASS_INL_H_
#else
#define CROUPIER_SAMPLER_MASS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "sampler/exp-inl.h"
#include "sampler/mass.h"

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using MassLanes = hn::CappedTag<double, 8>;
using MassVector = hn::Vec<hn::RebindToUnsigned<MassLanes>>;

HWY_INLINE hn::Vec<MassLanes> exponents_of(const float* HWY_RESTRICT values, const Weigher& weigher) {
    const MassLanes d;
    const hn::Rebind<float, MassLanes> narrow;
    const auto value = hn::PromoteTo(d, hn::LoadU(narrow, values));
    return hn::Mul(hn::Sub(value, hn::Set(d, weigher.maximum)), hn::Set(d, weigher.scale));
}

// Each lane's mass, with the rounder's bits still on it: a rounder is added to the weight, and what is left
// in the low bits are whole numbers.
HWY_INLINE hn::Vec<MassLanes> rounded_weights(hn::Vec<MassLanes> weights) {
    const MassLanes d;
    return hn::Add(hn::Mul(weights, hn::Set(d, kMassUnit)), hn::Set(d, kMassRounder));
}

HWY_INLINE MassVector rounded_masses(const float* HWY_RESTRICT values, const Weigher& weigher) {
    const auto weights = exp_nonpositive_vector(MassLanes(), exponents_of(values, weigher));
    return hn::BitCast(hn::RebindToUnsigned<MassLanes>(), rounded_weights(weights));
}

HWY_INLINE Mass sum_of_lanes(MassVector masses) {
    HWY_ALIGN Mass each[8];
    hn::Store(masses, hn::RebindToUnsigned<MassLanes>(), each);
    Mass total = 0;
    for (std::size_t lane = 0; lane < hn::Lanes(MassLanes()); ++lane) total += each[lane];
    return total;
}

// Of `count` logits, a multiple of eight.
HWY_INLINE Mass mass_of(const float* HWY_RESTRICT values, std::size_t count, const Weigher& weigher) {
    const hn::RebindToUnsigned<MassLanes> du;
    auto sum = hn::Zero(du);
    for (std::size_t i = 0; i < count; i += hn::Lanes(du)) {
        sum = hn::Add(sum, rounded_masses(values + i, weigher));
    }
    return sum_of_lanes(sum) - kMassRounderBits * count;
}

}  // namespace croupier::sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
