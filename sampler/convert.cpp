// Compiled once for each instruction set and chosen at run time; a conversion is exact in every one.
#include "sampler/convert.h"

#include <bit>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sampler/convert.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

Worst ConvertBf16(const std::uint16_t* HWY_RESTRICT elements, std::size_t count, float* HWY_RESTRICT out) {
    const hn::ScalableTag<std::int32_t> d;
    const hn::RebindToUnsigned<decltype(d)> du;
    const hn::RebindToFloat<decltype(d)> df;
    const hn::Rebind<std::uint16_t, decltype(du)> d16;
    const std::size_t width = hn::Lanes(d);
    const auto magnitude_bits = hn::Set(d, 0x7FFFFFFF);
    auto magnitude = hn::Zero(d);
    auto value = hn::Zero(d);
    std::size_t i = 0;
    for (; i + width <= count; i += width) {
        const auto wide = hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, elements + i)));
        hn::StoreU(hn::BitCast(df, wide), df, out + i);
        const auto bits = hn::BitCast(d, wide);
        magnitude = hn::Max(magnitude, hn::And(bits, magnitude_bits));
        value = hn::Max(value, bits);
    }
    Worst worst{hn::GetLane(hn::MaxOfLanes(d, magnitude)), hn::GetLane(hn::MaxOfLanes(d, value))};
    for (; i < count; ++i) {
        const std::uint32_t bits = std::uint32_t{elements[i]} << 16U;
        out[i] = std::bit_cast<float>(bits);
        worst.judge(bits);
    }
    return worst;
}

}  // namespace croupier::sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace croupier::sampler {

HWY_EXPORT(ConvertBf16);

Worst convert_bf16_run(const std::uint16_t* elements, std::uint32_t count, float* out) {
    return HWY_DYNAMIC_DISPATCH(ConvertBf16)(elements, count, out);
}

}  // namespace croupier::sampler
#endif  // HWY_ONCE
