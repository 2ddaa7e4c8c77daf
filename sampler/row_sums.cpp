// Compiled once for each instruction set and chosen at run time.
#include "sampler/row_sums.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "sampler/float_bounds.h"
#include "sampler/row_mask.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sampler/row_sums.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sampler/mask-inl.h"
#include "sampler/weights-inl.h"
#include "sampler/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr float kNone = -std::numeric_limits<float>::infinity();
// So many blocks are summed in float before a double takes them in.
constexpr std::uint32_t kFloatBlocks = 8;

// Calls visit(block, values) for each block whose maximum reaches `floor`, what the mask hides being -inf.
template <class Visit>
HWY_INLINE void EachBlock(const WeighedRow& of, float floor, Visit visit) {
    HWY_ALIGN float values[kBlock];
    for (const BlockRun& run : of.row.runs) {
        for (std::uint32_t i = 0; i < run.blocks; ++i) {
            const std::uint32_t block = run.first_block + i;
            if (!(of.block_max[block] >= floor)) continue;
            WidenBlock(of.row.dtype, run.block(i), values);
            const std::uint64_t allowed = allowed_in_block(of.mask, block);
            if (allowed != ~std::uint64_t{0}) HideMasked(allowed, values);
            visit(block, values);
        }
    }
}

// A float sum of a few blocks after the other, the groups in double.
class GroupedSum {
  public:
    HWY_ATTR GroupedSum() : sum_(hn::Zero(SumLanes())) {}

    HWY_INLINE void add(V values) { sum_ = hn::Add(sum_, values); }
    HWY_INLINE void end_block() {
        if (++blocks_ % kFloatBlocks == 0) take_in();
    }
    double total() {
        take_in();
        return total_;
    }

  private:
    HWY_INLINE void take_in() {
        total_ += static_cast<double>(hn::GetLane(hn::SumOfLanes(SumLanes(), sum_)));
        sum_ = hn::Zero(SumLanes());
    }

    V sum_;
    std::uint32_t blocks_ = 0;
    double total_ = 0.0;
};

double WeightBefore(const WeighedRow& of, const Candidate& place, float below) {
    const SumLanes d;
    const Weights weights(of.reference, of.scale);
    const float as_large = float_above(place.value);
    const float larger = static_cast<double>(as_large) > place.value
                             ? as_large
                             : std::nextafter(as_large, std::numeric_limits<float>::infinity());
    const std::uint32_t own = place.token / kBlock;
    const auto end = hn::Set(d, below);
    GroupedSum sum;
    EachBlock(of, as_large, [&](std::uint32_t block, float* HWY_RESTRICT values) HWY_ATTR {
        if (block == own) {
            for (std::uint32_t i = place.token % kBlock; i < kBlock; ++i)
                values[i] = values[i] >= larger ? values[i] : kNone;
        }
        const auto least = hn::Set(d, block <= own ? as_large : larger);
        for (std::size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
            const auto value = hn::LoadU(d, values + i);
            const auto counts = hn::And(hn::Ge(value, least), hn::Lt(value, end));
            sum.add(hn::IfThenElseZero(counts, weights(value)));
        }
        sum.end_block();
    });
    return sum.total() * weights.units_of(of.reference);
}

Spread SpreadOf(const WeighedRow& of) {
    const SumLanes d;
    const Weights weights(of.reference, of.scale);
    const auto reference = hn::Set(d, static_cast<float>(of.reference));
    const auto lowest = hn::Set(d, std::numeric_limits<float>::lowest());
    GroupedSum sum;
    GroupedSum products;
    EachBlock(of, std::numeric_limits<float>::lowest(),
              [&](std::uint32_t, const float* HWY_RESTRICT values) HWY_ATTR {
                  for (std::size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
                      const auto value = hn::LoadU(d, values + i);
                      const auto weight = hn::IfThenElseZero(hn::Ge(value, lowest), weights(value));
                      sum.add(weight);
                      products.add(hn::IfThenElseZero(hn::Ge(value, lowest),
                                                      hn::Mul(weight, hn::Sub(value, reference))));
                  }
                  sum.end_block();
                  products.end_block();
              });
    const double units = weights.units_of(of.reference);
    return {sum.total() * units, products.total() * units * of.scale};
}

Moments MomentsOf(const WeighedRow& of) {
    const SumLanes d;
    const auto reference = hn::Set(d, static_cast<float>(of.reference));
    const auto lowest = hn::Set(d, std::numeric_limits<float>::lowest());
    const auto one = hn::Set(d, 1.0F);
    GroupedSum tokens;
    GroupedSum distances;
    GroupedSum squares;
    EachBlock(of, std::numeric_limits<float>::lowest(),
              [&](std::uint32_t, const float* HWY_RESTRICT values) HWY_ATTR {
                  for (std::size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
                      const auto value = hn::LoadU(d, values + i);
                      const auto finite = hn::Ge(value, lowest);
                      const auto distance = hn::IfThenElseZero(finite, hn::Sub(value, reference));
                      tokens.add(hn::IfThenElseZero(finite, one));
                      distances.add(distance);
                      squares.add(hn::Mul(distance, distance));
                  }
                  tokens.end_block();
                  distances.end_block();
                  squares.end_block();
              });
    return {tokens.total(), distances.total(), squares.total()};
}

}  // namespace croupier::sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace croupier::sampler {

HWY_EXPORT(WeightBefore);
HWY_EXPORT(SpreadOf);
HWY_EXPORT(MomentsOf);

double weight_before(const WeighedRow& of, const Candidate& place, float below) noexcept {
    return HWY_DYNAMIC_DISPATCH(WeightBefore)(of, place, below);
}

Spread spread_of(const WeighedRow& of) noexcept {
    return HWY_DYNAMIC_DISPATCH(SpreadOf)(of);
}

Moments moments_of(const WeighedRow& of) noexcept {
    return HWY_DYNAMIC_DISPATCH(MomentsOf)(of);
}

}  // namespace croupier::sampler
#endif  // HWY_ONCE
