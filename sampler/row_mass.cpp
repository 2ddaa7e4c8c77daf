// Compiled once for each instruction set and chosen at run time. Sixteen lanes, whatever the width of a
// register, and no fused operation: the sums have the same bits in all of them.
#include "sampler/row_mass.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sampler/row_mass.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sampler/exp-inl.h"
#include "sampler/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kLanes = 16;
using SumLanes = hn::CappedTag<float, kLanes>;
using V = hn::Vec<SumLanes>;

// 2^((x - maximum) * scale), scale in bits: a rounding to whole powers and a polynomial for the rest, from
// -1/2 to 1/2, through Chebyshev nodes.
class Weights {
  public:
    Weights(double maximum, double scale)
        : maximum_(hn::Set(d_, static_cast<float>(maximum))),
          scale_(hn::Set(d_, static_cast<float>(scale * 0x1.71547652b82fep+0))) {}

    HWY_INLINE V operator()(V x) const {
        const auto c = [this](float value) HWY_ATTR { return hn::Set(d_, value); };
        const V t = hn::Max(hn::Mul(hn::Sub(x, maximum_), scale_), c(kLeast));
        const V shifted = hn::Add(t, c(kRounder));
        const V f = hn::Sub(t, hn::Sub(shifted, c(kRounder)));
        V power = hn::Add(hn::Mul(f, c(kP[5])), c(kP[4]));
        for (int i = 3; i >= 0; --i) power = hn::Add(hn::Mul(power, f), c(kP[i]));
        const hn::RebindToSigned<SumLanes> di;
        const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
        return hn::BitCast(d_, hn::Add(hn::BitCast(di, power), exponent));
    }

  private:
    // Weights below 2^-126 count as that: at most 2^-106 of a sum that the best makes at least 1.
    static constexpr float kLeast = -126.0F;
    static constexpr float kRounder = 0x1.8p+23F;
    static constexpr float kP[6] = {1.0F, 0.6931472F, 0.24022649F, 0.05550348F, 0.009618384F, 0.0013426624F};

    SumLanes d_;
    V maximum_;
    V scale_;
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
    double sum = 0.0;
    for (std::size_t lane = 0; lane < kLanes / 2; ++lane) {
        sum += static_cast<double>(lanes[lane]) + static_cast<double>(lanes[lane + kLanes / 2]);
    }
    return sum;
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
            total += weight;
            *group_weight++ = weight;
        }
    }
    return total;
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

double total_weight(const MassQuery& query, Workspace& workspace) noexcept {
    return HWY_DYNAMIC_DISPATCH(TotalWeight)(query, workspace.group_weight.data());
}

Mass total_mass(const MassQuery& query, Workspace& workspace) noexcept {
    return HWY_DYNAMIC_DISPATCH(TotalMass)(query, workspace.group_mass.data());
}

}  // namespace croupier::sampler
#endif  // HWY_ONCE
