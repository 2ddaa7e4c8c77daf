// A block of 64 elements of any dtype as floats. Included once for each instruction set (Highway's
// foreach_target).
#if defined(CROUPIER_SAMPLER_WIDEN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROUPIER_SAMPLER_WIDEN_INL_H_
#undef CROUPIER_SAMPLER_WIDEN_INL_H_
#else
#define CROUPIER_SAMPLER_WIDEN_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "proto/sampling.h"
#include "sampler/workspace.h"

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;

HWY_INLINE void WidenBlock(proto::Dtype dtype, const std::byte* HWY_RESTRICT block,
                           float* HWY_RESTRICT values) {
    const Floats d;
    const hn::Rebind<std::uint16_t, Floats> d16;
    const hn::RebindToUnsigned<Floats> d32;
    const hn::Rebind<hwy::float16_t, Floats> half;
    const auto* codes = reinterpret_cast<const std::uint16_t*>(block);
    for (std::size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
        if (dtype == proto::Dtype::bf16) {
            const auto wide = hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, codes + i)));
            hn::StoreU(hn::BitCast(d, wide), d, values + i);
        } else if (dtype == proto::Dtype::fp16) {
            const auto halves = hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(codes + i));
            hn::StoreU(hn::PromoteTo(d, halves), d, values + i);
        } else {
            hn::StoreU(hn::LoadU(d, reinterpret_cast<const float*>(block) + i), d, values + i);
        }
    }
}

}  // namespace croupier::sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
