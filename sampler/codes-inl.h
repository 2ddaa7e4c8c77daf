// The largest of a block's elements by their codes. Included once for each instruction set (Highway's
// foreach_target).
#if defined(CROUPIER_SAMPLER_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROUPIER_SAMPLER_CODES_INL_H_
#undef CROUPIER_SAMPLER_CODES_INL_H_
#else
#define CROUPIER_SAMPLER_CODES_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "sampler/blocked_row.h"
#include "sampler/mask-inl.h"
#include "sampler/workspace.h"

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// How far ahead of the scan a block is asked for: out of L3, less leaves the core waiting, more gains
// nothing.
constexpr std::size_t kAhead = 16;
// Of a pass that no scan came before, among the columns of a step: a block is some 150 ns on its way.
constexpr std::size_t kFarAhead = 32;
constexpr std::size_t kLine = 64;

// Codes are sign and magnitude. Signed, they order as values do where one is not negative; all negative, the
// smallest unsigned one is the largest value. So neither needs a transformation for each element.
template <typename Code>
struct Codes {
    using Signed = std::make_signed_t<Code>;
    static constexpr std::size_t kWidth = kBlock * sizeof(Code);
    static constexpr Code kMagnitude = std::numeric_limits<Signed>::max();

    const hn::CappedTag<Code, kBlock> d;
    const hn::RebindToSigned<decltype(d)> ds;
    using Vector = hn::Vec<decltype(d)>;

    HWY_ATTR Codes() : top(hn::Zero(d)), highest(hn::Set(ds, std::numeric_limits<Signed>::min())) {}

    // The largest unsigned code tells a NaN with a sign, the largest signed one +inf and NaN without. (Where
    // all tokens are allowed the maxima tell the latter.)
    Vector top;
    hn::Vec<decltype(ds)> highest;

    Code largest_of_block(const Code* HWY_RESTRICT block) {
        return largest_of_block(block, [](std::size_t, Vector) HWY_ATTR {});
    }

    // Shows each register full of the block to `visit` too, with the number of its first element.
    template <class Visit>
    HWY_INLINE Code largest_of_block(const Code* HWY_RESTRICT block, Visit visit) {
        const std::size_t lanes = hn::Lanes(d);
        auto most = hn::Set(ds, std::numeric_limits<Signed>::min());
        auto least = hn::Set(d, std::numeric_limits<Code>::max());
        for (std::size_t i = 0; i < kBlock; i += lanes) {
            const auto codes = hn::LoadU(d, block + i);
            visit(i, codes);
            most = hn::Max(most, hn::BitCast(ds, codes));
            least = hn::Min(least, codes);
            top = hn::Max(top, codes);
        }
        return code_of(most, least);
    }

    // The largest of those whose bits are set; of the others only NaN and +inf are noted. `nothing`: the code
    // of -inf.
    HWY_INLINE Code largest_allowed(const Code* HWY_RESTRICT block, std::uint64_t allowed, Code nothing) {
        const std::size_t lanes = hn::Lanes(d);
        auto most = hn::Set(ds, std::numeric_limits<Signed>::min());
        auto least = hn::Set(d, std::numeric_limits<Code>::max());
        for (std::size_t i = 0; i < kBlock; i += lanes) {
            const auto all = hn::LoadU(d, block + i);
            const auto codes = hn::IfThenElse(LanesOf(d, allowed, i), all, hn::Set(d, nothing));
            most = hn::Max(most, hn::BitCast(ds, codes));
            least = hn::Min(least, codes);
            top = hn::Max(top, all);
            highest = hn::Max(highest, hn::BitCast(ds, all));
        }
        return code_of(most, least);
    }

    HWY_INLINE Code code_of(hn::Vec<decltype(ds)> most, Vector least) const {
        const auto folded = hn::Xor(hn::BitCast(ds, least), hn::Set(ds, static_cast<Signed>(kMagnitude)));
        const auto keys = hn::IfThenElse(hn::Lt(most, hn::Zero(ds)), folded, most);
        // Without a branch: whether a block holds a positive value is a coin's toss in many rows.
        const Signed key = largest_lane(keys);
        const auto negative = static_cast<Signed>(key >> (sizeof(Code) * 8 - 1));
        return static_cast<Code>(key ^ (negative & static_cast<Signed>(kMagnitude)));
    }

    // Through unsigned minima, for which x86 has an instruction on eight lanes of 16 bits.
    template <class V>
    Signed largest_lane(V keys) const {
        const auto flipped = hn::BitCast(d, hn::Xor(keys, hn::Set(ds, static_cast<Signed>(kMagnitude))));
        return static_cast<Signed>(least_lane(d, flipped) ^ kMagnitude);
    }

    template <class D, class V>
    static Code least_lane(D tag, V codes) {
#if HWY_TARGET != HWY_SCALAR
        if constexpr (hn::MaxLanes(D()) * sizeof(Code) > 16) {
            const hn::Half<D> half;
            return least_lane(half, hn::Min(hn::LowerHalf(half, codes), hn::UpperHalf(half, codes)));
        }
#endif
        return hn::GetLane(hn::MinOfLanes(tag, codes));
    }

    Code largest_code() const {
        return largest_of_lanes(d, top);
    }
    Signed highest_code() const {
        return largest_of_lanes(ds, highest);
    }

    template <class D, class V>
    static hn::TFromD<D> largest_of_lanes(D tag, V codes) {
        HWY_ALIGN hn::TFromD<D> each[HWY_MAX_BYTES / sizeof(Code)];
        hn::Store(codes, tag, each);
        return *std::max_element(each, each + hn::Lanes(tag));
    }
};

// Calls `pass` with a code of the row's dtype, and with what makes a float of one.
template <class Pass>
auto WithCodes(proto::Dtype dtype, Pass pass) {
    switch (dtype) {
        case proto::Dtype::bf16:
            return pass(std::uint16_t{},
                        [](std::uint16_t code) { return std::bit_cast<float>(std::uint32_t{code} << 16U); });
        case proto::Dtype::fp16:
            return pass(std::uint16_t{}, [](std::uint16_t code) HWY_ATTR { return Fp16::of(code); });
        case proto::Dtype::fp32:
            break;
    }
    return pass(std::uint32_t{}, [](std::uint32_t code) { return std::bit_cast<float>(code); });
}

HWY_INLINE void PrefetchBlock(const std::byte* block, std::size_t bytes) {
    for (std::size_t line = 0; line < bytes; line += kLine) hwy::Prefetch(block + line);
}

// Shows each block of the run to `visit`, with its number in the run.
template <class Visit>
HWY_INLINE void WalkRun(const BlockRun& run, std::size_t bytes, Visit visit) {
    if (run.is_even()) {
        const std::byte* block = run.elements;
        for (std::uint32_t i = 0; i < run.blocks; ++i, block += run.stride) {
            PrefetchBlock(block + kAhead * run.stride, bytes);
            visit(i, block);
        }
        return;
    }
    for (std::uint32_t i = 0; i < run.blocks; ++i) {
        const auto ahead = std::min(i + static_cast<std::uint32_t>(kAhead), run.blocks - 1);
        PrefetchBlock(run.ahead(ahead), bytes);
        visit(i, run.block(i));
    }
}

}  // namespace croupier::sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
