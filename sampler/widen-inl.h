// Elements of any dtype as floats. Included once for each instruction set (Highway's foreach_target).
#if defined(CROUPIER_SAMPLER_WIDEN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROUPIER_SAMPLER_WIDEN_INL_H_
#undef CROUPIER_SAMPLER_WIDEN_INL_H_
#else
#define CROUPIER_SAMPLER_WIDEN_INL_H_
#endif

#include <hwy/highway.h>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "proto/dtype.h"
#include "sampler/blocked_row.h"

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;

// For each dtype: a register full of a block's elements from the i-th on, and one of them.
struct Bf16 {
    using Code = std::uint16_t;

    static float of(Code code) { return std::bit_cast<float>(std::uint32_t{code} << 16U); }
    static HWY_INLINE hn::Vec<Floats> widen(const std::byte* block, std::size_t i) {
        const hn::Rebind<std::uint16_t, Floats> d16;
        const hn::RebindToUnsigned<Floats> d32;
        const auto codes = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(block) + i);
        return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(d32, codes)));
    }
    static float value(const std::byte* block, std::size_t i) {
        return of(reinterpret_cast<const std::uint16_t*>(block)[i]);
    }
};

struct Fp16 {
    using Code = std::uint16_t;

    static HWY_INLINE float of(Code code) {
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX2
        return value_of_code(proto::Dtype::fp16, code);
#else
        const hn::CappedTag<float, 1> d;
        const hn::Rebind<std::uint16_t, decltype(d)> codes;
        const hn::Rebind<hwy::float16_t, decltype(d)> half;
        return hn::GetLane(hn::PromoteTo(d, hn::BitCast(half, hn::Set(codes, code))));
#endif
    }
    static HWY_INLINE hn::Vec<Floats> widen(const std::byte* block, std::size_t i) {
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX2
        // Highway's own conversion for processors without F16C takes infinities and NaN for numbers.
        const Floats d;
        HWY_ALIGN float values[16];
        for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) values[lane] = value(block, i + lane);
        return hn::Load(d, values);
#else
        const hn::Rebind<hwy::float16_t, Floats> half;
        return hn::PromoteTo(Floats(), hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(block) + i));
#endif
    }
    static float value(const std::byte* block, std::size_t i) {
        return value_of_code(proto::Dtype::fp16, reinterpret_cast<const std::uint16_t*>(block)[i]);
    }
};

struct Fp32 {
    using Code = std::uint32_t;

    static HWY_INLINE hn::Vec<Floats> widen(const std::byte* block, std::size_t i) {
        return hn::LoadU(Floats(), reinterpret_cast<const float*>(block) + i);
    }
    static float value(const std::byte* block, std::size_t i) {
        return reinterpret_cast<const float*>(block)[i];
    }
};

template <class Format>
HWY_INLINE void WidenBlockOf(const std::byte* HWY_RESTRICT block, float* HWY_RESTRICT values) {
    const Floats d;
    for (std::size_t i = 0; i < kBlock; i += hn::Lanes(d)) hn::StoreU(Format::widen(block, i), d, values + i);
}

HWY_INLINE void WidenBlock(proto::Dtype dtype, const std::byte* HWY_RESTRICT block,
                           float* HWY_RESTRICT values) {
    switch (dtype) {
        case proto::Dtype::bf16:
            return WidenBlockOf<Bf16>(block, values);
        case proto::Dtype::fp16:
            return WidenBlockOf<Fp16>(block, values);
        case proto::Dtype::fp32:
            break;
    }
    WidenBlockOf<Fp32>(block, values);
}

}  // namespace croupier::sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
