// A block's elements under a mask. Included once for each instruction set (Highway's foreach_target).
#if defined(CROUPIER_SAMPLER_MASK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROUPIER_SAMPLER_MASK_INL_H_
#undef CROUPIER_SAMPLER_MASK_INL_H_
#else
#define CROUPIER_SAMPLER_MASK_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "sampler/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The lanes from the block's i-th element on whose bits are set.
template <class D>
HWY_INLINE hn::Mask<D> LanesOf(D d, std::uint64_t bits, std::size_t i) {
    const std::uint64_t shifted = bits >> i;
    std::uint8_t bytes[sizeof(shifted)];
    std::memcpy(bytes, &shifted, sizeof(shifted));
    return hn::LoadMaskBits(d, bytes);
}

// -inf in place of what is not allowed.
HWY_INLINE void HideMasked(std::uint64_t allowed, float* HWY_RESTRICT values) {
    const Floats d;
    const auto nothing = hn::Set(d, -std::numeric_limits<float>::infinity());
    for (std::size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
        const auto value = hn::LoadU(d, values + i);
        hn::StoreU(hn::IfThenElse(LanesOf(d, allowed, i), value, nothing), d, values + i);
    }
}

}  // namespace croupier::sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
