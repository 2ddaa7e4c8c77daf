// Compiled once for each instruction set and chosen at run time. Sixteen lanes, whatever the width of a
// register: the sums have the same bits wherever products are fused, which is everywhere but on SSE4 and
// older.
#include "sampler/row_mass.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sampler/row_mass.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sampler/block_groups.h"
#include "sampler/codes-inl.h"
#include "sampler/mass-inl.h"
#include "sampler/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Where a product and a sum are one operation, rounded once.
#undef CROUPIER_FUSES
#define CROUPIER_FUSES (HWY_ARCH_X86 ? HWY_TARGET <= HWY_AVX2 : HWY_ARCH_ARM_A64)

inline double exp_of(double x) {
    return x > 0.0 ? 1.0 / exp_nonpositive(-x) : exp_nonpositive(x);
}

constexpr double kLog2E = 0x1.71547652b82fep+0;
constexpr double kLn2 = 0x1.62e42fefa39efp-1;

constexpr std::size_t kLanes = 16;
using SumLanes = hn::CappedTag<float, kLanes>;
using V = hn::Vec<SumLanes>;

// 2^(x * slope - unit), the slope being the scale in bits. Where products are fused the unit is a whole
// number of bits: the rounding to whole powers, and what that leaves, are then one fused product each, and
// how far the unit lies from the row's maximum costs no precision.
class Weights {
  public:
    // In units of about what `reference` weighs.
    Weights(double reference, double scale) : slope_(static_cast<float>(scale * kLog2E)) {
        const auto slope = static_cast<double>(slope_);
#if CROUPIER_FUSES
        unit_ = std::nearbyint(reference * slope);
#else
        reference_ = static_cast<float>(reference);
        unit_ = static_cast<double>(reference_) * slope;
#endif
        least_ = static_cast<float>((unit_ + kLeast) / slope);
    }

    HWY_INLINE V operator()(V x) const {
        const SumLanes d;
        const auto c = [d](float value) HWY_ATTR { return hn::Set(d, value); };
        const V slope = c(slope_);
        const V clamped = hn::Max(x, c(least_));
#if CROUPIER_FUSES
        const V rounder = c(kRounder - static_cast<float>(unit_));
        const V shifted = hn::MulAdd(clamped, slope, rounder);
        const V f = hn::MulAdd(clamped, slope, hn::Sub(rounder, shifted));
#else
        const V t = hn::Mul(hn::Sub(clamped, c(reference_)), slope);
        const V shifted = hn::Add(t, c(kRounder));
        const V f = hn::Sub(t, hn::Sub(shifted, c(kRounder)));
#endif
        V power = hn::MulAdd(f, c(kP[4]), c(kP[3]));
        for (int i = 2; i >= 0; --i) power = hn::MulAdd(power, f, c(kP[i]));
        const hn::RebindToSigned<SumLanes> di;
        const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
        return hn::BitCast(d, hn::Add(hn::BitCast(di, power), exponent));
    }

    // What turns these weights into those in units of the weight of `maximum`. By the rounded slope: its
    // error then counts only for the distance from the maximum.
    double units_of(double maximum) const {
        return exp_of((unit_ - maximum * static_cast<double>(slope_)) * kLn2);
    }

    // How far above the reference, in nats, the row's maximum may lie: where products are not fused, a
    // weight's error grows with the distance.
    static constexpr double kFarthest = CROUPIER_FUSES ? 80.0 : 16.0;
    // Whether a scan leaves sixteen registers enough for it.
    static constexpr bool kFewRegisters = false;

  private:
    // Weights below 2^-126 count as that: at most 2^-85 of a sum that the best makes at least 2^-21.
    static constexpr double kLeast = -126.0;
    static constexpr float kRounder = 0x1.8p+23F;
    // At most 2.6e-6 off from -1/2 to 1/2: the minimax of the relative error.
    static constexpr float kP[5] = {0x1.ffffe8p-1F, 0x1.62e0dcp-1F, 0x1.ec06dap-3F, 0x1.ca1440p-5F,
                                    0x1.3997d6p-7F};

    float slope_;
#if !CROUPIER_FUSES
    float reference_;
#endif
    double unit_;
    float least_;
};

// A bound of 2^t, at most kChordExcess of it: the bits of a float that hold t's whole part and what follows
// its point are those of the chord, (1 + f) 2^n. A third of a weight's cost. The sum 512 + 127 + t has t's
// point where nine bits more put it to that of an exponent; a conversion to integers costs more.
class Chords {
  public:
    Chords(double reference, double scale)
        : bits_(scale * kLog2E),
          unit_(std::nearbyint(reference * bits_)),
          slope_(static_cast<float>(bits_)),
          offset_(static_cast<float>(kBias - unit_)) {}

    HWY_INLINE V operator()(V x) const {
        const SumLanes d;
        const hn::RebindToUnsigned<SumLanes> du;
        const V bits = hn::Max(hn::MulAdd(x, hn::Set(d, slope_), hn::Set(d, offset_)), hn::Set(d, kLeast));
        return hn::BitCast(d, hn::ShiftLeft<9>(hn::BitCast(du, bits)));
    }

    double units_of(double maximum) const { return exp_of((unit_ - maximum * bits_) * kLn2); }
    static constexpr double kFarthest = 80.0;
    static constexpr bool kFewRegisters = true;

  private:
    static constexpr double kBias = 512.0 + 127.0;
    static constexpr float kLeast = 513.0F;  // the least power of 2 that is no subnormal

    double bits_;
    double unit_;
    float slope_;
    float offset_;
};

// The weights of a group of blocks, each in the lane of its place in the block: the same additions in the
// same order whatever the width of a register.
template <class Weigh>
class LaneSums {
  public:
    HWY_ATTR explicit LaneSums(const Weigh& weigh) : weigh_(weigh) {
        for (V& sum : sums_) sum = hn::Zero(SumLanes());
    }

    // A register full of 16-bit elements, the first being the block's i-th.
    template <class Codes>
    HWY_INLINE void add(std::size_t i, Codes codes) {
        add_lanes(i / 2, weigh_both(codes));
    }
    // A register of sums after the other, and apart from the scan: it and the constants leave none to spare.
    HWY_NOINLINE void add_blocks(const BlockGroup& group) {
        const hn::CappedTag<std::uint16_t, kLanes * 2> d;
        for (std::size_t part = 0; part < kRegisters; ++part) {
            V sum = sums_[part];
            for (std::uint32_t block = 0; block < group.blocks; ++block) {
                const auto* codes = reinterpret_cast<const std::uint16_t*>(group.at[block]);
                for (std::size_t i = part * hn::Lanes(d); i < kBlock; i += kRegisters * hn::Lanes(d)) {
                    sum = hn::Add(sum, weigh_both(hn::LoadU(d, codes + i)));
                }
            }
            sums_[part] = sum;
        }
    }
    HWY_INLINE void add_widened(std::size_t i, V values) { add_lanes(i, weigh_(values)); }

    double total() const {
        HWY_ALIGN float lanes[kLanes];
        for (std::size_t i = 0; i < kRegisters; ++i) {
            hn::Store(sums_[i], SumLanes(), lanes + i * hn::MaxLanes(SumLanes()));
        }
        float quarters[4];
        for (std::size_t i = 0; i < 4; ++i)
            quarters[i] = (lanes[i] + lanes[i + 4]) + (lanes[i + 8] + lanes[i + 12]);
        return (static_cast<double>(quarters[0]) + static_cast<double>(quarters[1])) +
               (static_cast<double>(quarters[2]) + static_cast<double>(quarters[3]));
    }

  private:
    // Both elements of each 32-bit word where they are, which is cheaper than to unpack them in order.
    template <class Codes>
    HWY_INLINE V weigh_both(Codes codes) const {
        const SumLanes d;
        const hn::RebindToUnsigned<SumLanes> du;
#if HWY_TARGET == HWY_SCALAR
        return weigh_(hn::BitCast(d, hn::Set(du, static_cast<std::uint32_t>(hn::GetLane(codes)) << 16U)));
#else
        const auto words = hn::BitCast(du, codes);
        const V low = hn::BitCast(d, hn::ShiftLeft<16>(words));
        const V high = hn::BitCast(d, hn::And(words, hn::Set(du, 0xFFFF0000U)));
        return hn::Add(weigh_(low), weigh_(high));
#endif
    }

    static constexpr std::size_t kRegisters = kLanes / hn::MaxLanes(SumLanes());

    HWY_INLINE void add_lanes(std::size_t lane, V weights) {
        V& sum = sums_[lane / hn::MaxLanes(SumLanes()) % kRegisters];
        sum = hn::Add(sum, weights);
    }

    const Weigh weigh_;
    V sums_[kRegisters];
};

template <class Weigh>
double GroupBf16(const Weigh& weigh, const BlockGroup& group) {
    LaneSums<Weigh> sums(weigh);
    sums.add_blocks(group);
    return sums.total();
}

// Where the row is not bf16, or a mask hides some of it.
double GroupWidened(const Weights& weigh, const float* values, std::uint32_t blocks) {
    const SumLanes d;
    LaneSums<Weights> sums(weigh);
    for (std::size_t i = 0; i < std::size_t{blocks} * kBlock; i += hn::Lanes(d)) {
        sums.add_widened(i, hn::LoadU(d, values + i));
    }
    return sums.total();
}

void HideMasked(std::span<const std::uint32_t> mask, std::uint32_t first, std::uint32_t entries,
                float* HWY_RESTRICT values) {
    for (std::uint32_t i = 0; i < entries; ++i) {
        const std::uint32_t token = first + i;
        if ((mask[token / 32] >> (token % 32) & 1U) == 0) values[i] = -std::numeric_limits<float>::infinity();
    }
}

// The group's elements as floats, those that the mask hides -inf.
void WidenGroup(const MassQuery& query, const BlockGroup& group, float* HWY_RESTRICT values) {
    for (std::uint32_t i = 0; i < group.blocks; ++i) {
        float* own = values + std::size_t{i} * kBlock;
        WidenBlock(query.row.dtype, group.at[i], own);
        if (query.mask.empty()) continue;
        const std::uint32_t first = (group.first_block + i) * kBlock;
        HideMasked(query.mask, first, std::min(kBlock, query.row.vocab - first), own);
    }
}

double TotalWeight(const MassQuery& query) {
    const Weights weights(query.maximum, query.scale);
    HWY_ALIGN float values[kGroup * kBlock];
    double total = 0.0;
    GroupWalk walk(query.row);
    for (BlockGroup group = walk.next(); group.blocks > 0; group = walk.next()) {
        if (query.row.dtype == proto::Dtype::bf16 && query.mask.empty()) {
            total += GroupBf16(weights, group);
        } else {
            WidenGroup(query, group, values);
            total += GroupWidened(weights, values, group.blocks);
        }
    }
    return total * weights.units_of(query.maximum);
}

// The largest of some blocks from all over the row: near enough to the maximum to weigh by.
float SampledMaximum(const BlockedRow& row, Codes<std::uint16_t>& codes) {
    constexpr std::uint32_t kSamples = 32;
    const std::uint32_t step = std::max(1U, row.blocks / kSamples);
    float most = -std::numeric_limits<float>::infinity();
    for (std::uint32_t b = 0; b < row.blocks; b += step) PrefetchBlock(row.block(b), 128);
    for (std::uint32_t b = 0; b < row.blocks; b += step) {
        const auto* block = reinterpret_cast<const std::uint16_t*>(row.block(b));
        most = std::max(most, Bf16::of(codes.largest_of_block(block)));
    }
    return most;
}

// Block maxima and the sum of what the row weighs in one pass: weights cost arithmetic, the scan waits for
// memory.
template <class Weigh>
ScannedWeight ScanAnd(const BlockedRow& row, double scale, float* HWY_RESTRICT block_max) {
    Codes<std::uint16_t> codes;
    const auto reference = static_cast<double>(SampledMaximum(row, codes));
    const Weigh weights(reference, scale);
    double maximum = reference;
    double total = 0.0;
    // This group and those that are asked for meanwhile.
    constexpr std::size_t kGroups = 1 + kAhead / kGroup;
    BlockGroup groups[kGroups];
    GroupWalk walk(row);
    for (std::size_t i = 0; i + 1 < kGroups; ++i) groups[i] = walk.next();
    for (std::size_t number = 0; groups[number % kGroups].blocks > 0; ++number) {
        const BlockGroup& group = groups[number % kGroups];
        BlockGroup& ahead = groups[(number + kGroups - 1) % kGroups];
        ahead = walk.next();
        LaneSums<Weigh> sums(weights);
        for (std::uint32_t i = 0; i < group.blocks; ++i) {
            const auto* elements = reinterpret_cast<const std::uint16_t*>(group.at[i]);
            if (i < ahead.blocks) PrefetchBlock(ahead.at[i], Codes<std::uint16_t>::kWidth);
            std::uint16_t largest = 0;
            if constexpr (Weigh::kFewRegisters) {
                largest = codes.largest_of_block(
                    elements, [&sums](std::size_t element, auto some) HWY_ATTR { sums.add(element, some); });
            } else {
                largest = codes.largest_of_block(elements);
            }
            block_max[group.first_block + i] = Bf16::of(largest);
            maximum = std::max(maximum, static_cast<double>(Bf16::of(largest)));
        }
        if constexpr (!Weigh::kFewRegisters) sums.add_blocks(group);
        total += sums.total();
    }
    const bool near = maximum - reference <= Weigh::kFarthest / scale;
    return {maximum, near ? total * weights.units_of(maximum) : 0.0, codes.largest_code()};
}

ScannedWeight ScanAndWeigh(const BlockedRow& row, double scale, float* HWY_RESTRICT block_max) {
    return ScanAnd<Weights>(row, scale, block_max);
}

ScannedWeight ScanAndBound(const BlockedRow& row, double scale, float* HWY_RESTRICT block_max) {
    return ScanAnd<Chords>(row, scale, block_max);
}

double TotalChords(const BlockedRow& row, double maximum, double scale) {
    const Chords chords(maximum, scale);
    double total = 0.0;
    GroupWalk walk(row);
    for (BlockGroup group = walk.next(); group.blocks > 0; group = walk.next()) {
        total += GroupBf16(chords, group);
    }
    return total * chords.units_of(maximum);
}

Mass TotalMass(const MassQuery& query) {
    HWY_ALIGN float values[kGroup * kBlock];
    const Weigher weigher = {query.maximum, query.scale};
    Mass total = 0;
    GroupWalk walk(query.row);
    for (BlockGroup group = walk.next(); group.blocks > 0; group = walk.next()) {
        WidenGroup(query, group, values);
        total += mass_of(values, std::size_t{group.blocks} * kBlock, weigher);
    }
    return total;
}

}  // namespace croupier::sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace croupier::sampler {

HWY_EXPORT(TotalWeight);
HWY_EXPORT(TotalMass);
HWY_EXPORT(ScanAndWeigh);
HWY_EXPORT(ScanAndBound);
HWY_EXPORT(TotalChords);

namespace {

// Beyond it the product of a float logit and the slope leaves too few bits, or none, for what is behind the
// point.
constexpr double kLargestArgument = 1e6;
// As far as this, kChordError holds: an argument and its offset are rounded once each.
constexpr double kLargestChord = 1e3;

bool fits_float(double maximum, double scale) {
    return std::abs(maximum) * scale < kLargestArgument;
}

}  // namespace

double total_weight(const MassQuery& query, const Weighed& known) noexcept {
    if (query.mask.empty() && known.maximum == query.maximum && known.scale == query.scale)
        return known.total;
    if (fits_float(query.maximum, query.scale)) return HWY_DYNAMIC_DISPATCH(TotalWeight)(query);
    return static_cast<double>(HWY_DYNAMIC_DISPATCH(TotalMass)(query)) / kMassUnit;
}

RowFault scan_and_weigh(const BlockedRow& row, double scale, Workspace& workspace) noexcept {
    const std::span<float> block_max = workspace.block_max.first(row.blocks);
    const ScannedWeight scanned = HWY_DYNAMIC_DISPATCH(ScanAndWeigh)(row, scale, block_max.data());
    const bool known = scanned.total > 0.0 && fits_float(scanned.maximum, scale);
    if (known) workspace.weighed = {scanned.maximum, scale, scanned.total};
    return judge_scan(row.dtype, scanned.largest_code, block_max);
}

bool chords_reach(double maximum, double scale) noexcept {
    return std::abs(maximum) * scale < kLargestChord;
}

RowFault scan_and_bound(const BlockedRow& row, double scale, Workspace& workspace) noexcept {
    const std::span<float> block_max = workspace.block_max.first(row.blocks);
    const ScannedWeight scanned = HWY_DYNAMIC_DISPATCH(ScanAndBound)(row, scale, block_max.data());
    const bool known = scanned.total > 0.0 && chords_reach(scanned.maximum, scale);
    if (known) workspace.chords = {scanned.maximum, scale, scanned.total};
    return judge_scan(row.dtype, scanned.largest_code, block_max);
}

double total_chords(const BlockedRow& row, double maximum, double scale, const Weighed& known) noexcept {
    if (known.maximum == maximum && known.scale == scale) return known.total;
    return HWY_DYNAMIC_DISPATCH(TotalChords)(row, maximum, scale);
}

}  // namespace croupier::sampler
#endif  // HWY_ONCE
