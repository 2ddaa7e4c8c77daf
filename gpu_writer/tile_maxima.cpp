// Compiled once for each instruction set and chosen at run time: maxima are the same in all.
#include "gpu_writer/tile_maxima.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu_writer/tile_maxima.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace croupier::gpu_writer::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

struct Bf16 {
    using Code = std::uint16_t;
    static constexpr Code kNansOfASign = 0x007F;

    static float value(Code code) { return bf16_value(code); }
};

struct Fp16 {
    using Code = std::uint16_t;
    static constexpr Code kNansOfASign = 0x03FF;

    static float value(Code code) { return fp16_value(code); }
};

struct Fp32 {
    using Code = std::uint32_t;
    static constexpr Code kNansOfASign = 0x007FFFFF;

    static float value(Code code) { return std::bit_cast<float>(code); }
};

// Unsigned numbers that ascend as values descend: the NaNs of either sign come first, then +inf, and -inf is
// the last. So one minimum finds the largest value and the NaN.
template <class Format>
struct Ranks {
    using Code = typename Format::Code;
    static constexpr int kSignBit = sizeof(Code) * 8 - 1;
    static constexpr auto kMagnitude = static_cast<Code>((Code{1} << kSignBit) - 1);

    static Code flip_positive(Code code) {
        return static_cast<Code>(code >> kSignBit) != 0 ? code : static_cast<Code>(code ^ kMagnitude);
    }
    // Negative NaNs, which would come last, wrap to the front.
    static Code of(Code code) { return static_cast<Code>(flip_positive(code) + Format::kNansOfASign); }
    static Code code_of(Code rank) { return flip_positive(static_cast<Code>(rank - Format::kNansOfASign)); }

    template <class D, class V = hn::Vec<D>>
    static HWY_INLINE V of_each(D d, V codes) {
        const hn::RebindToSigned<D> ds;
        const auto negative = hn::BitCast(d, hn::ShiftRight<kSignBit>(hn::BitCast(ds, codes)));
        const auto flipped = hn::Xor(codes, hn::AndNot(negative, hn::Set(d, kMagnitude)));
        return hn::Add(flipped, hn::Set(d, Format::kNansOfASign));
    }
};

template <class Format, class Code = typename Format::Code>
float Largest(const Code* HWY_RESTRICT tile, std::size_t count) {
    using R = Ranks<Format>;
    const hn::ScalableTag<Code> d;
    const std::size_t lanes = hn::Lanes(d);
    Code least = R::of(tile[0]);
    std::size_t i = 0;
    if (count >= lanes) {
        auto best = R::of_each(d, hn::LoadU(d, tile));
        for (i = lanes; i + lanes <= count; i += lanes) {
            best = hn::Min(best, R::of_each(d, hn::LoadU(d, tile + i)));
        }
        least = hn::GetLane(hn::MinOfLanes(d, best));
    }
    for (; i < count; ++i) least = std::min(least, R::of(tile[i]));
    return Format::value(R::code_of(least));
}

template <class Format>
void LayOf(const SliceShape& shape, const SliceMemory& slice, const LaidTiles& tiles) {
    const auto* elements = static_cast<const typename Format::Code*>(slice.elements);
    for (std::size_t column = tiles.first_column; column < tiles.end_column; ++column) {
        float* maxima = slice.maxima + column * slice.maxima_stride;
        for (std::size_t tile = tiles.first_tile; tile < tiles.end_tile; ++tile) {
            const std::size_t at = tile * shape.columns + column;
            maxima[tile] = Largest<Format>(elements + at * shape.tile, shape.tile);
        }
    }
}

void LayMaxima(const SliceShape& shape, const SliceMemory& slice, const LaidTiles& tiles) {
    switch (shape.dtype) {
        case proto::Dtype::bf16:
            return LayOf<Bf16>(shape, slice, tiles);
        case proto::Dtype::fp16:
            return LayOf<Fp16>(shape, slice, tiles);
        case proto::Dtype::fp32:
            return LayOf<Fp32>(shape, slice, tiles);
    }
}

}  // namespace croupier::gpu_writer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace croupier::gpu_writer {

HWY_EXPORT(LayMaxima);

void lay_maxima(const SliceShape& shape, const SliceMemory& slice, const LaidTiles& tiles) {
    HWY_DYNAMIC_DISPATCH(LayMaxima)(shape, slice, tiles);
}

}  // namespace croupier::gpu_writer
#endif  // HWY_ONCE
