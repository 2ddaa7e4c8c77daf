// Compiled once for each instruction set and chosen at run time.
#include "sampler/row_mask.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sampler/row_mask.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sampler/codes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

template <typename Code, typename ToFloat>
SeenCodes ScanAllowed(const BlockedRow& row, std::span<const std::uint32_t> mask, ToFloat to_float,
                      float* HWY_RESTRICT block_max) {
    Codes<Code> codes;
    const auto nothing = static_cast<Code>(negative_infinity_code(row.dtype));
    for (const BlockRun& run : row.runs) {
        WalkRun(run, Codes<Code>::kWidth, [&](std::uint32_t i, const std::byte* elements) HWY_ATTR {
            const std::uint32_t block = run.first_block + i;
            const auto* entries = reinterpret_cast<const Code*>(elements);
            block_max[block] =
                to_float(codes.largest_allowed(entries, allowed_in_block(mask, block), nothing));
        });
    }
    return {codes.largest_code(), codes.highest_code()};
}

template <typename Code, typename ToFloat>
SeenCodes MaskMaxima(const BlockedRow& row, std::span<const std::uint32_t> mask, ToFloat to_float,
                     float* HWY_RESTRICT block_max) {
    Codes<Code> codes;
    const auto nothing = static_cast<Code>(negative_infinity_code(row.dtype));
    const auto is_read = [](std::uint64_t allowed) { return allowed != 0 && allowed != ~std::uint64_t{0}; };
    for (const BlockRun& run : row.runs) {
        const auto largest_of = [&](std::uint32_t i, std::uint64_t allowed) HWY_ATTR {
            return codes.largest_allowed(reinterpret_cast<const Code*>(run.block(i)), allowed, nothing);
        };
        for (std::uint32_t i = 0; i < run.blocks; ++i) {
            const std::uint32_t block = run.first_block + i;
            const std::uint64_t allowed = allowed_in_block(mask, block);
            const auto ahead = i + static_cast<std::uint32_t>(kAhead);
            if (ahead < run.blocks && is_read(allowed_in_block(mask, run.first_block + ahead)))
                PrefetchBlock(run.ahead(ahead), Codes<Code>::kWidth);
            if (allowed == ~std::uint64_t{0}) continue;
            block_max[block] = to_float(allowed == 0 ? nothing : largest_of(i, allowed));
        }
    }
    return {codes.largest_code(), codes.highest_code()};
}

SeenCodes ScanAllowedMaxima(const BlockedRow& row, std::span<const std::uint32_t> mask,
                            float* HWY_RESTRICT block_max) {
    return WithCodes(row.dtype, [&](auto code, auto to_float) {
        return ScanAllowed<decltype(code)>(row, mask, to_float, block_max);
    });
}

SeenCodes MaskBlockMaxima(const BlockedRow& row, std::span<const std::uint32_t> mask,
                          float* HWY_RESTRICT block_max) {
    return WithCodes(row.dtype, [&](auto code, auto to_float) {
        return MaskMaxima<decltype(code)>(row, mask, to_float, block_max);
    });
}

}  // namespace croupier::sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace croupier::sampler {

HWY_EXPORT(ScanAllowedMaxima);
HWY_EXPORT(MaskBlockMaxima);

namespace {

RowFault judge_seen(proto::Dtype dtype, const SeenCodes& seen) {
    // The codes of infinities differ by their sign alone.
    const std::uint32_t negative = negative_infinity_code(dtype);
    const std::uint32_t sign = dtype == proto::Dtype::fp32 ? 0x80000000U : 0x8000U;
    const auto positive = static_cast<std::int32_t>(negative - sign);
    if (seen.largest > negative || seen.highest > positive) return RowFault::nan;
    return seen.highest == positive ? RowFault::positive_infinity : RowFault::none;
}

}  // namespace

RowFault mask_block_maxima(const BlockedRow& row, std::span<const std::uint32_t> mask,
                           std::span<float> block_max) noexcept {
    return judge_seen(row.dtype, HWY_DYNAMIC_DISPATCH(MaskBlockMaxima)(row, mask, block_max.data()));
}

RowFault scan_allowed_maxima(const BlockedRow& row, std::span<const std::uint32_t> mask,
                             std::span<float> block_max) noexcept {
    return judge_seen(row.dtype, HWY_DYNAMIC_DISPATCH(ScanAllowedMaxima)(row, mask, block_max.data()));
}

}  // namespace croupier::sampler
#endif  // HWY_ONCE
