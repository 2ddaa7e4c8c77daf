// What logits weigh, in float at the speed of the vector unit. Sixteen lanes, whatever the width of a
// register: sums have the same bits wherever products are fused, which is everywhere but on SSE4 and older.
// Included once for each instruction set (Highway's foreach_target).
#if defined(CROUPIER_SAMPLER_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROUPIER_SAMPLER_WEIGHTS_INL_H_
#undef CROUPIER_SAMPLER_WEIGHTS_INL_H_
#else
#define CROUPIER_SAMPLER_WEIGHTS_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstddef>

#include "sampler/exp.h"

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Where a product and a sum are one operation, rounded once.
#undef CROUPIER_FUSES
#define CROUPIER_FUSES (HWY_ARCH_X86 ? HWY_TARGET <= HWY_AVX2 : HWY_ARCH_ARM_A64)

inline double exp_of(double x) {
    return x > 0.0 ? 1.0 / exp_nonpositive(-x) : exp_nonpositive(x);
}

constexpr double kLog2E = 0x1.71547652b82fep+0;
constexpr double kLn2 = 0x1.62e42fefa39efp-1;

constexpr std::size_t kLanes = 16;
using SumLanes = hn::CappedTag<float, kLanes>;
using V = hn::Vec<SumLanes>;

// 2^(x * slope - unit), the slope being the scale in bits. Where products are fused the unit is a whole
// number of bits: the rounding to whole powers, and what that leaves, are then one fused product each, and
// how far the unit lies from the row's maximum costs no precision.
class Weights {
  public:
    // In units of about what `reference` weighs.
    Weights(double reference, double scale) : slope_(static_cast<float>(scale * kLog2E)) {
        const auto slope = static_cast<double>(slope_);
#if CROUPIER_FUSES
        unit_ = std::nearbyint(reference * slope);
#else
        reference_ = static_cast<float>(reference);
        unit_ = static_cast<double>(reference_) * slope;
#endif
        least_ = static_cast<float>((unit_ + kLeast) / slope);
    }

    HWY_INLINE V operator()(V x) const {
        const SumLanes d;
        const auto c = [d](float value) HWY_ATTR { return hn::Set(d, value); };
        const V slope = c(slope_);
        const V clamped = weighed_value(x);
#if CROUPIER_FUSES
        const V rounder = c(kRounder - static_cast<float>(unit_));
        const V shifted = hn::MulAdd(clamped, slope, rounder);
        const V f = hn::MulAdd(clamped, slope, hn::Sub(rounder, shifted));
#else
        const V t = hn::Mul(hn::Sub(clamped, c(reference_)), slope);
        const V shifted = hn::Add(t, c(kRounder));
        const V f = hn::Sub(t, hn::Sub(shifted, c(kRounder)));
#endif
        V power = hn::MulAdd(f, c(kP[4]), c(kP[3]));
        for (int i = 2; i >= 0; --i) power = hn::MulAdd(power, f, c(kP[i]));
        const hn::RebindToSigned<SumLanes> di;
        const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
        return hn::BitCast(d, hn::Add(hn::BitCast(di, power), exponent));
    }

    // The value that is weighed in place of x.
    HWY_INLINE V weighed_value(V x) const {
        return hn::Max(x, hn::Set(SumLanes(), least_));
    }

    // What turns these weights into those in units of the weight of `maximum`. By the rounded slope: its
    // error then counts only for the distance from the maximum.
    double units_of(double maximum) const {
        return exp_of((unit_ - maximum * static_cast<double>(slope_)) * kLn2);
    }

    // How far above the reference, in nats, the row's maximum may lie: where products are not fused, a
    // weight's error grows with the distance.
    static constexpr double kFarthest = CROUPIER_FUSES ? 80.0 : 16.0;

  private:
    // Weights below 2^-126 count as that: at most 2^-85 of a sum that the best makes at least 2^-21.
    static constexpr double kLeast = -126.0;
    static constexpr float kRounder = 0x1.8p+23F;
    // At most 2.6e-6 off from -1/2 to 1/2: the minimax of the relative error.
    static constexpr float kP[5] = {0x1.ffffe8p-1F, 0x1.62e0dcp-1F, 0x1.ec06dap-3F, 0x1.ca1440p-5F,
                                    0x1.3997d6p-7F};

    float slope_;
#if !CROUPIER_FUSES
    float reference_;
#endif
    double unit_;
    float least_;
};

}  // namespace croupier::sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
