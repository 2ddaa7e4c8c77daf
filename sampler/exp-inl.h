// exp_nonpositive of sampler/exp.h for a vector: operation for operation the same, so bit for bit the same.
// Included once for each instruction set (Highway's foreach_target).
#if defined(CROUPIER_SAMPLER_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROUPIER_SAMPLER_EXP_INL_H_
#undef CROUPIER_SAMPLER_EXP_INL_H_
#else
#define CROUPIER_SAMPLER_EXP_INL_H_
#endif

#include <hwy/highway.h>

#include "sampler/exp.h"

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// MulAdd would fuse where the target can: products and sums are written apart on purpose.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_nonpositive_vector(D d, V x) {
    const hn::Repartition<std::uint64_t, D> du;
    const auto c = [d](double value) { return hn::Set(d, value); };
    const auto plus_times = [](V a, V b, V t) { return hn::Add(a, hn::Mul(b, t)); };

    const V clamped = hn::Max(x, c(kExpUnderflow));
    const V shifted = hn::Add(hn::Mul(clamped, c(exp_constants::kLog2E)), c(exp_constants::kRounder));
    const V n = hn::Sub(shifted, c(exp_constants::kRounder));
    const V r = hn::Sub(hn::Sub(clamped, hn::Mul(n, c(exp_constants::kLn2High))),
                        hn::Mul(n, c(exp_constants::kLn2Low)));
    const V r2 = hn::Mul(r, r);
    const V r4 = hn::Mul(r2, r2);
    const auto& q = exp_constants::kQ;
    const V q01 = plus_times(c(q[0]), c(q[1]), r);
    const V q23 = plus_times(c(q[2]), c(q[3]), r);
    const V q45 = plus_times(c(q[4]), c(q[5]), r);
    const V q67 = plus_times(c(q[6]), c(q[7]), r);
    const V q89 = plus_times(c(q[8]), c(q[9]), r);
    const V low = plus_times(q01, q23, r2);
    const V high = hn::Add(plus_times(q45, q67, r2), hn::Mul(q89, r4));
    const V sum = plus_times(low, high, r4);
    const V power = hn::Add(hn::Add(hn::Mul(sum, r2), r), c(1.0));
    const auto biased = hn::Add(hn::BitCast(du, shifted), hn::Set(du, std::uint64_t{1023}));
    return hn::Mul(power, hn::BitCast(d, hn::ShiftLeft<52>(biased)));
}

}  // namespace croupier::sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
