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

// The values of a row from which on a token stands before a place in canonical order: in the blocks before
// the place's own, in those after it, and in its own, where it depends on the member.
struct PlaceFloors {
    float as_large;
    float larger;
    std::uint32_t block;
    std::uint32_t member;

    explicit PlaceFloors(const Candidate& place)
        : as_large(float_above(place.value)),
          larger(static_cast<double>(as_large) > place.value
                     ? as_large
                     : std::nextafter(as_large, std::numeric_limits<float>::infinity())),
          block(place.token / kBlock),
          member(place.token % kBlock) {}

    float of_block(std::uint32_t other) const { return other <= block ? as_large : larger; }
    // Of the members of the own block that stand after the place, one that no value reaches.
    void hide_equal(float* values) const {
        for (std::uint32_t i = member; i < kBlock; ++i) values[i] = values[i] >= larger ? values[i] : kNone;
    }
};

double WeightOfBefore(const WeighedRow& of, const Candidate& place, float below) {
    const SumLanes d;
    const Weights weights(of.reference, of.scale);
    const PlaceFloors floors(place);
    const auto end = hn::Set(d, below);
    GroupedSum sum;
    EachBlock(of, floors.as_large, [&](std::uint32_t block, float* HWY_RESTRICT values) HWY_ATTR {
        if (block == floors.block) floors.hide_equal(values);
        const auto least = hn::Set(d, floors.of_block(block));
        for (std::size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
            const auto value = hn::LoadU(d, values + i);
            const auto counts = hn::And(hn::Ge(value, least), hn::Lt(value, end));
            sum.add(hn::IfThenElseZero(counts, weights(value)));
        }
        sum.end_block();
    });
    return sum.total() * weights.units_of(of.reference);
}

// What the largest of each block weighs where it is below `floor`.
double WeightOfMaximaBelow(const WeighedRow& of, const Weights& weights, float floor) {
    const SumLanes d;
    const std::size_t lanes = hn::Lanes(d);
    const auto end = hn::Set(d, floor);
    const auto lowest = hn::Set(d, std::numeric_limits<float>::lowest());
    auto sum = hn::Zero(d);
    std::size_t b = 0;
    for (; b + lanes <= of.block_max.size(); b += lanes) {
        const auto value = hn::LoadU(d, of.block_max.data() + b);
        const auto counts = hn::And(hn::Ge(value, lowest), hn::Lt(value, end));
        sum = hn::Add(sum, hn::IfThenElseZero(counts, weights(value)));
    }
    return static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
}

WeightBefore WeightBeforeAndLeast(const WeighedRow& of, const Candidate& place) {
    const SumLanes d;
    const Weights weights(of.reference, of.scale);
    const PlaceFloors floors(place);
    const auto lowest = hn::Set(d, std::numeric_limits<float>::lowest());
    GroupedSum before;
    GroupedSum after;
    EachBlock(of, floors.as_large, [&](std::uint32_t block, float* HWY_RESTRICT values) HWY_ATTR {
        if (block == floors.block) floors.hide_equal(values);
        const auto least = hn::Set(d, floors.of_block(block));
        for (std::size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
            const auto value = hn::LoadU(d, values + i);
            const auto weight = hn::IfThenElseZero(hn::Ge(value, lowest), weights(value));
            const auto counts = hn::Ge(value, least);
            before.add(hn::IfThenElseZero(counts, weight));
            after.add(hn::IfThenZeroElse(counts, weight));
        }
        before.end_block();
        after.end_block();
    });
    const double units = weights.units_of(of.reference);
    const double known = before.total();
    const double rest = after.total() + WeightOfMaximaBelow(of, weights, floors.as_large);
    return {known * units, (known + rest) * units};
}

void WeighEach(double reference, double scale, const float* HWY_RESTRICT values, std::size_t count,
               float* HWY_RESTRICT weights) {
    const SumLanes d;
    const std::size_t lanes = hn::Lanes(d);
    const Weights weigh(reference, scale);
    const auto units = hn::Set(d, static_cast<float>(weigh.units_of(reference)));
    HWY_ALIGN float rest[kLanes] = {};
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        hn::StoreU(hn::Mul(weigh(hn::LoadU(d, values + i)), units), d, weights + i);
    }
    if (i == count) return;
    std::copy(values + i, values + count, rest);
    hn::Store(hn::Mul(weigh(hn::Load(d, rest)), units), d, rest);
    std::copy(rest, rest + (count - i), weights + i);
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

HWY_EXPORT(WeightOfBefore);
HWY_EXPORT(WeightBeforeAndLeast);
HWY_EXPORT(WeighEach);
HWY_EXPORT(SpreadOf);
HWY_EXPORT(MomentsOf);

double weight_before(const WeighedRow& of, const Candidate& place, float below) noexcept {
    return HWY_DYNAMIC_DISPATCH(WeightOfBefore)(of, place, below);
}

WeightBefore weight_before_and_least(const WeighedRow& of, const Candidate& place) noexcept {
    return HWY_DYNAMIC_DISPATCH(WeightBeforeAndLeast)(of, place);
}

void weigh_each(double reference, double scale, std::span<const float> values,
                std::span<float> weights) noexcept {
    HWY_DYNAMIC_DISPATCH(WeighEach)(reference, scale, values.data(), values.size(), weights.data());
}

Spread spread_of(const WeighedRow& of) noexcept {
    return HWY_DYNAMIC_DISPATCH(SpreadOf)(of);
}

Moments moments_of(const WeighedRow& of) noexcept {
    return HWY_DYNAMIC_DISPATCH(MomentsOf)(of);
}

}  // namespace croupier::sampler
#endif  // HWY_ONCE
