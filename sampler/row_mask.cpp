// Compiled once for each instruction set and chosen at run time.
#include "sampler/row_mask.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sampler/row_mask.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sampler/mask-inl.h"
#include "sampler/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class Format>
float LargestAllowed(const std::byte* HWY_RESTRICT block, std::uint64_t allowed) {
    const Floats d;
    const auto nothing = hn::Set(d, -std::numeric_limits<float>::infinity());
    auto most = nothing;
    for (std::size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
        most = hn::Max(most, hn::IfThenElse(LanesOf(allowed, i), Format::widen(block, i), nothing));
    }
    HWY_ALIGN float lanes[16];
    hn::Store(most, d, lanes);
    return *std::max_element(lanes, lanes + hn::Lanes(d));
}

template <class Format>
void MaskMaxima(const BlockedRow& row, std::span<const std::uint32_t> mask, float* HWY_RESTRICT block_max) {
    for (const BlockRun& run : row.runs) {
        for (std::uint32_t i = 0; i < run.blocks; ++i) {
            const std::uint32_t block = run.first_block + i;
            const std::uint64_t allowed = allowed_in_block(mask, block);
            if (allowed == ~std::uint64_t{0}) continue;
            block_max[block] = allowed == 0 ? -std::numeric_limits<float>::infinity()
                                            : LargestAllowed<Format>(run.block(i), allowed);
        }
    }
}

void MaskBlockMaxima(const BlockedRow& row, std::span<const std::uint32_t> mask,
                     float* HWY_RESTRICT block_max) {
    switch (row.dtype) {
        case proto::Dtype::bf16:
            return MaskMaxima<Bf16>(row, mask, block_max);
        case proto::Dtype::fp16:
            return MaskMaxima<Fp16>(row, mask, block_max);
        case proto::Dtype::fp32:
            break;
    }
    MaskMaxima<Fp32>(row, mask, block_max);
}

}  // namespace croupier::sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace croupier::sampler {

HWY_EXPORT(MaskBlockMaxima);

void mask_block_maxima(const BlockedRow& row, std::span<const std::uint32_t> mask,
                       std::span<float> block_max) noexcept {
    HWY_DYNAMIC_DISPATCH(MaskBlockMaxima)(row, mask, block_max.data());
}

}  // namespace croupier::sampler
#endif  // HWY_ONCE
