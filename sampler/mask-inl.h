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

// The lanes that reach the floor, as bits.
template <class V>
HWY_INLINE std::uint64_t ReachedLanes(V values, V floor) {
    const Floats d;
    std::uint8_t bytes[8];
    hn::StoreMaskBits(d, hn::Ge(values, floor), bytes);
    // Byte by byte, as they were stored: a wider load would wait until the store has left for the cache.
    return hn::Lanes(d) > 8 ? bytes[0] | std::uint64_t{bytes[1]} << 8U : bytes[0];
}

// Which of up to 64 values reach the floor.
inline std::uint64_t ReachedBits(const float* HWY_RESTRICT values, std::size_t count, float floor) {
    const Floats d;
    const std::size_t lanes = hn::Lanes(d);
    const auto bound = hn::Set(d, floor);
    std::uint64_t reached = 0;
    const std::size_t whole = count - count % lanes;
    std::size_t i = 0;
    for (; i < whole; i += lanes) reached |= ReachedLanes(hn::LoadU(d, values + i), bound) << i;
    for (; i < count; ++i) reached |= (values[i] >= floor ? std::uint64_t{1} : 0) << i;
    return reached;
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
