#include "sampler/row_reader.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "sampler/convert.h"

namespace croupier::sampler {
namespace {

struct Bf16 {
    using Element = std::uint16_t;
    static std::uint32_t float_bits(Element element) { return std::uint32_t{element} << 16U; }
};

struct Fp16 {
    using Element = std::uint16_t;
    // All three cases are computed and one is chosen, so that the loop vectorises; subnormals go through
    // an integer, so that a denormals-are-zero mode of the processor cannot change them.
    static std::uint32_t float_bits(Element element) {
        const std::uint32_t bits = element;
        const std::uint32_t magnitude = bits & 0x7FFFU;
        const std::uint32_t widened = magnitude << 13U;
        constexpr std::uint32_t kRebias = 112U << 23U;
        const float subnormal = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F;
        std::uint32_t result = widened + kRebias;
        result = magnitude >= 0x7C00U ? result + kRebias : result;
        result = magnitude < 0x0400U ? std::bit_cast<std::uint32_t>(subnormal) : result;
        return result | (bits & 0x8000U) << 16U;
    }
};

struct Fp32 {
    using Element = std::uint32_t;
    static std::uint32_t float_bits(Element element) { return element; }
};

template <typename Format>
void convert_run(const typename Format::Element* elements, std::uint32_t count, float* out, Worst& worst) {
    Worst seen;
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t bits = Format::float_bits(elements[i]);
        seen.judge(bits);
        out[i] = std::bit_cast<float>(bits);
    }
    worst.judge(seen);
}

template <>
void convert_run<Bf16>(const std::uint16_t* elements, std::uint32_t count, float* out, Worst& worst) {
    worst.judge(convert_bf16_run(elements, count, out));
}

template <typename Format>
void convert_strided(const typename Format::Element* elements, std::size_t stride, std::uint32_t count,
                     float* out, Worst& worst) {
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t bits = Format::float_bits(elements[i * stride]);
        worst.judge(bits);
        out[i] = std::bit_cast<float>(bits);
    }
}

template <typename Format>
void convert_slice(const RowView& view, const Slice& slice, float* out, Worst& worst) {
    const auto* column =
        static_cast<const typename Format::Element*>(slice.elements) + std::size_t{view.column} * view.tile;
    const std::size_t stride = std::size_t{view.columns} * view.tile;
    if (view.columns == 1) {
        convert_run<Format>(column, slice.entries, out, worst);
    } else if (view.tile == 1) {
        convert_strided<Format>(column, stride, slice.entries, out, worst);
    } else {
        for (std::uint32_t first = 0; first < slice.entries; first += view.tile, column += stride) {
            convert_run<Format>(column, std::min(view.tile, slice.entries - first), out + first, worst);
        }
    }
}

template <typename Format>
Worst convert(const RowView& view, float* out) {
    Worst worst;
    for (const Slice& slice : view.slices) {
        if (slice.entries > 0) convert_slice<Format>(view, slice, out + slice.first_id, worst);
    }
    return worst;
}

Worst convert(const RowView& view, float* out) {
    switch (view.dtype) {
        case proto::Dtype::bf16:
            return convert<Bf16>(view, out);
        case proto::Dtype::fp16:
            return convert<Fp16>(view, out);
        case proto::Dtype::fp32:
            break;
    }
    return convert<Fp32>(view, out);
}

}  // namespace

bool view_is_consistent(const RowView& view) noexcept {
    if (view.tile == 0 || view.column >= view.columns) return false;
    if (view.dtype > proto::Dtype::fp32) return false;
    std::uint64_t covered = 0;
    for (const Slice& slice : view.slices) {
        if (slice.first_id != covered) return false;
        if (slice.entries > 0 && slice.elements == nullptr) return false;
        covered += slice.entries;
    }
    return covered == view.vocab && covered > 0;
}

RowFault read_row(const RowView& view, std::span<float> row) noexcept {
    const Worst worst = convert(view, row.data());
    std::fill(row.begin() + view.vocab, row.end(), -std::numeric_limits<float>::infinity());
    if (worst.nan()) return RowFault::nan;
    return worst.positive_infinity() ? RowFault::positive_infinity : RowFault::none;
}

}  // namespace croupier::sampler
