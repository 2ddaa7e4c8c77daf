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

#include "sampler/codes-inl.h"
#include "sampler/exp-inl.h"
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

constexpr std::size_t kLanes = 16;
using SumLanes = hn::CappedTag<float, kLanes>;
using V = hn::Vec<SumLanes>;

// 2^((x - maximum) * scale), scale in bits: a rounding to whole powers and a polynomial for the rest, from
// -1/2 to 1/2, at most 1.7e-7 off, and 1 at 0. All products are fused, so that the argument is rounded once.
class Weights {
  public:
    Weights(double maximum, double scale) {
        const auto slope = static_cast<float>(scale * kLog2E);
        slope_ = hn::Set(d_, slope);
#if CROUPIER_FUSES
        const auto offset = static_cast<float>(-maximum * static_cast<double>(slope));
        offset_ = hn::Set(d_, offset);
        unit_ = static_cast<double>(offset) + maximum * static_cast<double>(slope);
#else
        offset_ = hn::Set(d_, static_cast<float>(maximum));
#endif
    }

    HWY_INLINE V operator()(V x) const {
        const auto c = [this](float value) HWY_ATTR { return hn::Set(d_, value); };
#if CROUPIER_FUSES
        const V t = hn::Max(hn::MulAdd(x, slope_, offset_), c(kLeast));
#else
        const V t = hn::Max(hn::Mul(hn::Sub(x, offset_), slope_), c(kLeast));
#endif
        const V shifted = hn::Add(t, c(kRounder));
        const V f = hn::Sub(t, hn::Sub(shifted, c(kRounder)));
        V power = hn::MulAdd(f, c(kP[5]), c(kP[4]));
        for (int i = 3; i >= 0; --i) power = hn::MulAdd(power, f, c(kP[i]));
        const hn::RebindToSigned<SumLanes> di;
        const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
        return hn::BitCast(d_, hn::Add(hn::BitCast(di, power), exponent));
    }

    // What the maximum weighs is a little off 1, because its offset had to be a float: the factor that mends
    // it.
    double correction() const {
        return exp_of(-unit_ * kLn2);
    }

  private:
    static constexpr double kLog2E = 0x1.71547652b82fep+0;
    static constexpr double kLn2 = 0x1.62e42fefa39efp-1;
    // Weights below 2^-126 count as that: at most 2^-106 of a sum that the best makes at least 1.
    static constexpr float kLeast = -126.0F;
    static constexpr float kRounder = 0x1.8p+23F;
    static constexpr float kP[6] = {1.0F,          0.693146884F,   0.24022238F,
                                    0.0555089302F, 0.00967169832F, 0.00132186722F};

    SumLanes d_;
    V slope_;
    V offset_;
    double unit_ = 0.0;
};

// Both elements of each 32-bit word, without moving any: that is cheaper than to unpack them in order.
HWY_INLINE V pair_weight(const Weights& weights, const std::uint16_t* words) {
    const SumLanes d;
    const hn::RebindToUnsigned<SumLanes> du;
#if HWY_TARGET == HWY_SCALAR
    const auto pair = hn::Set(du, words[0] | static_cast<std::uint32_t>(words[1]) << 16U);
#else
    const hn::Repartition<std::uint16_t, SumLanes> d16;
    const auto pair = hn::BitCast(du, hn::LoadU(d16, words));
#endif
    const V low = hn::BitCast(d, hn::ShiftLeft<16>(pair));
    const V high = hn::BitCast(d, hn::And(pair, hn::Set(du, 0xFFFF0000U)));
    return hn::Add(weights(low), weights(high));
}

HWY_INLINE V lane_weight_bf16(const Weights& weights, const std::byte* block, std::size_t lane) {
    const auto* elements = reinterpret_cast<const std::uint16_t*>(block) + lane * 2;
    return hn::Add(pair_weight(weights, elements), pair_weight(weights, elements + kLanes * 2));
}

HWY_INLINE V lane_weight(const Weights& weights, const float* values, std::size_t lane) {
    const SumLanes d;
    const float* own = values + lane;
    const V low = hn::Add(weights(hn::LoadU(d, own)), weights(hn::LoadU(d, own + kLanes)));
    const V high = hn::Add(weights(hn::LoadU(d, own + kLanes * 2)), weights(hn::LoadU(d, own + kLanes * 3)));
    return hn::Add(low, high);
}

double sum_lanes(const float* HWY_RESTRICT lanes) {
    float quarters[4];
    for (std::size_t i = 0; i < 4; ++i)
        quarters[i] = (lanes[i] + lanes[i + 4]) + (lanes[i + 8] + lanes[i + 12]);
    return (static_cast<double>(quarters[0]) + static_cast<double>(quarters[1])) +
           (static_cast<double>(quarters[2]) + static_cast<double>(quarters[3]));
}

double GroupBf16(const Weights& weights, const std::byte* first, std::size_t stride, std::uint32_t blocks) {
    const SumLanes d;
    HWY_ALIGN float lanes[kLanes];
    for (std::size_t lane = 0; lane < kLanes; lane += hn::Lanes(d)) {
        V sum = hn::Zero(d);
        for (std::uint32_t i = 0; i < blocks; ++i) {
            sum = hn::Add(sum, lane_weight_bf16(weights, first + i * stride, lane));
        }
        hn::Store(sum, d, lanes + lane);
    }
    return sum_lanes(lanes);
}

// Where the row is not bf16, or a mask hides some of it.
double GroupWidened(const Weights& weights, const float* values, std::uint32_t blocks) {
    const SumLanes d;
    HWY_ALIGN float lanes[kLanes];
    for (std::size_t lane = 0; lane < kLanes; lane += hn::Lanes(d)) {
        V sum = hn::Zero(d);
        for (std::uint32_t i = 0; i < blocks; ++i) {
            sum = hn::Add(sum, lane_weight(weights, values + std::size_t{i} * kBlock, lane));
        }
        hn::Store(sum, d, lanes + lane);
    }
    return sum_lanes(lanes);
}

void HideMasked(std::span<const std::uint32_t> mask, const VocabularyOrder& order, std::uint32_t position,
                std::uint32_t entries, float* HWY_RESTRICT values) {
    for (std::uint32_t i = 0; i < entries; ++i) {
        const auto token = order.token_at(position + i).value_or(0);
        if ((mask[token / 32] >> (token % 32) & 1U) == 0) values[i] = -std::numeric_limits<float>::infinity();
    }
}

// The group's elements as floats, those that the mask hides -inf.
void WidenGroup(const MassQuery& query, const BlockRun& run, std::uint32_t first, std::uint32_t blocks,
                float* HWY_RESTRICT values) {
    for (std::uint32_t i = 0; i < blocks; ++i) {
        const std::uint32_t before = (first + i) * kBlock;
        float* own = values + std::size_t{i} * kBlock;
        WidenBlock(query.row.dtype, run.elements + (first + i) * run.stride, own);
        if (query.mask.empty()) continue;
        HideMasked(query.mask, query.order, run.first_position + before,
                   std::min(kBlock, run.entries - before), own);
    }
}

double TotalWeight(const MassQuery& query, double* HWY_RESTRICT group_weight) {
    const Weights weights(query.maximum, query.scale);
    const double correction = weights.correction();
    HWY_ALIGN float values[kGroup * kBlock];
    double total = 0.0;
    for (const BlockRun& run : query.row.runs) {
        for (std::uint32_t first = 0; first < run.blocks; first += kGroup) {
            const std::uint32_t blocks = std::min(kGroup, run.blocks - first);
            double weight = 0.0;
            if (query.row.dtype == proto::Dtype::bf16 && query.mask.empty()) {
                weight = GroupBf16(weights, run.elements + first * run.stride, run.stride, blocks);
            } else {
                WidenGroup(query, run, first, blocks, values);
                weight = GroupWidened(weights, values, blocks);
            }
            weight *= correction;
            total += weight;
            *group_weight++ = weight;
        }
    }
    return total;
}

// The largest of some blocks from all over the row: it lies a few nats below the maximum, near enough to
// weigh by.
float SampledMaximum(const BlockedRow& row, Codes<std::uint16_t>& codes) {
    constexpr std::uint32_t kSamples = 32;
    const std::uint32_t step = std::max(1U, row.blocks / kSamples);
    float most = -std::numeric_limits<float>::infinity();
    for (const BlockRun& run : row.runs) {
        for (std::uint32_t i = 0; i < run.blocks; i += step)
            PrefetchBlock(run.elements + i * run.stride, 128);
        for (std::uint32_t i = 0; i < run.blocks; i += step) {
            const auto* block = reinterpret_cast<const std::uint16_t*>(run.elements + i * run.stride);
            most = std::max(most, Bf16::of(codes.largest_of_block(block)));
        }
    }
    return most;
}

// Block maxima and group weights of a bf16 row in one pass: the weights cost arithmetic, the scan waits for
// memory.
ScannedWeight ScanAndWeigh(const BlockedRow& row, double scale, float* HWY_RESTRICT block_max,
                           double* HWY_RESTRICT group_weight) {
    Codes<std::uint16_t> codes;
    constexpr double kMostlyAbove = 5.0;
    const double reference = static_cast<double>(SampledMaximum(row, codes)) + kMostlyAbove;
    const Weights weights(reference, scale);
    const double correction = weights.correction();
    double total = 0.0;
    for (const BlockRun& run : row.runs) {
        for (std::uint32_t first = 0; first < run.blocks; first += kGroup) {
            const std::uint32_t blocks = std::min(kGroup, run.blocks - first);
            const std::byte* elements = run.elements + first * run.stride;
            for (std::uint32_t i = 0; i < blocks; ++i) {
                const std::byte* block = elements + i * run.stride;
                PrefetchBlock(block + kAhead * run.stride, Codes<std::uint16_t>::kWidth);
                block_max[run.first_block + first + i] =
                    Bf16::of(codes.largest_of_block(reinterpret_cast<const std::uint16_t*>(block)));
            }
            const double weight = GroupBf16(weights, elements, run.stride, blocks) * correction;
            total += weight;
            *group_weight++ = weight;
        }
    }
    return {reference, total, codes.largest_code()};
}

using MassLanes = hn::CappedTag<double, 8>;

// A rounder is added to each weight and taken off the sum: what is left are the low bits, whole numbers.
Mass MassOf(const float* HWY_RESTRICT values, std::size_t count, double maximum, double scale) {
    const MassLanes d;
    const hn::RebindToUnsigned<MassLanes> du;
    const hn::Rebind<float, MassLanes> narrow;
    const std::size_t lanes = hn::Lanes(d);
    const auto top = hn::Set(d, maximum);
    const auto times = hn::Set(d, scale);
    auto sum = hn::Zero(du);
    for (std::size_t i = 0; i < count; i += lanes) {
        const auto value = hn::PromoteTo(d, hn::LoadU(narrow, values + i));
        const auto weight = exp_nonpositive_vector(d, hn::Mul(hn::Sub(value, top), times));
        const auto rounded = hn::Add(hn::Mul(weight, hn::Set(d, kMassUnit)), hn::Set(d, kMassRounder));
        sum = hn::Add(sum, hn::BitCast(du, rounded));
    }
    HWY_ALIGN std::uint64_t each[8];
    hn::Store(sum, du, each);
    Mass total = 0;
    for (std::size_t lane = 0; lane < lanes; ++lane) total += each[lane];
    return total - kMassRounderBits * count;
}

Mass TotalMass(const MassQuery& query, Mass* HWY_RESTRICT group_mass) {
    HWY_ALIGN float values[kGroup * kBlock];
    Mass total = 0;
    for (const BlockRun& run : query.row.runs) {
        for (std::uint32_t first = 0; first < run.blocks; first += kGroup) {
            const std::uint32_t blocks = std::min(kGroup, run.blocks - first);
            WidenGroup(query, run, first, blocks, values);
            const Mass mass = MassOf(values, std::size_t{blocks} * kBlock, query.maximum, query.scale);
            total += mass;
            *group_mass++ = mass;
        }
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

namespace {

// Beyond it the product of a float logit and the slope leaves too few bits, or none, for what is behind the
// point.
constexpr double kLargestArgument = 1e6;

bool fits_float(double maximum, double scale) {
    return std::abs(maximum) * scale < kLargestArgument;
}

}  // namespace

double total_weight(const MassQuery& query, Workspace& workspace) noexcept {
    const Weighed& known = workspace.weighed;
    if (query.mask.empty() && known.maximum == query.maximum && known.scale == query.scale)
        return known.total;
    if (fits_float(query.maximum, query.scale)) {
        return HWY_DYNAMIC_DISPATCH(TotalWeight)(query, workspace.group_weight.data());
    }
    const auto total = static_cast<double>(total_mass(query, workspace));
    std::transform(workspace.group_mass.begin(), workspace.group_mass.end(), workspace.group_weight.begin(),
                   [](Mass mass) { return static_cast<double>(mass) / kMassUnit; });
    return total / kMassUnit;
}

RowFault scan_and_weigh(const BlockedRow& row, double scale, Workspace& workspace) noexcept {
    const ScannedWeight scanned = HWY_DYNAMIC_DISPATCH(ScanAndWeigh)(row, scale, workspace.block_max.data(),
                                                                     workspace.group_weight.data());
    const std::span<const float> block_max = workspace.block_max.first(row.blocks);
    const RowFault fault = judge_scan(row.dtype, scanned.largest_code, block_max);
    if (fault != RowFault::none) return fault;
    // Weights were taken in units of the reference's, from which the maximum must not lie far: the argument's
    // error is that of its size.
    constexpr double kMostApart = 11.0;
    const auto maximum = static_cast<double>(largest_of(block_max));
    const double above = (maximum - scanned.reference) * scale;
    if (!(std::abs(above) < kMostApart) || !fits_float(maximum, scale)) return fault;
    const double unit = above > 0.0 ? exp_nonpositive(-above) : 1.0 / exp_nonpositive(above);
    for (double& weight : workspace.group_weight) weight *= unit;
    workspace.weighed = {maximum, scale, scanned.total * unit};
    return fault;
}

Mass total_mass(const MassQuery& query, Workspace& workspace) noexcept {
    return HWY_DYNAMIC_DISPATCH(TotalMass)(query, workspace.group_mass.data());
}

}  // namespace croupier::sampler
#endif  // HWY_ONCE
