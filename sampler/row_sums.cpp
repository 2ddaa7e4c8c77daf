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

#include "sampler/codes-inl.h"
#include "sampler/mask-inl.h"
#include "sampler/row_sums-inl.h"
#include "sampler/weights-inl.h"
#include "sampler/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Calls visit(low, high, least) for all values of each block whose maximum reaches the least floor, two
// registers at a time, what the mask hides being -inf, `least` telling which stand before the place; and
// end_block() after each.
template <class Visit, class EndBlock>
HWY_INLINE void EachRegister(const WeighedRow& of, const PlaceFloors& floors, float floor, Visit visit,
                             EndBlock end_block) {
    const SumLanes d;
    const std::size_t lanes = hn::Lanes(d);
    const bool in_place = of.row.dtype == proto::Dtype::bf16 && of.mask.empty();
    const std::size_t bytes = proto::element_bytes(of.row.dtype) * std::size_t{kBlock};
    HWY_ALIGN float values[kBlock];
    for (const BlockRun& run : of.row.runs) {
        for (std::uint32_t i = 0; i < run.blocks; ++i) {
            // Where the maxima came with the row nothing of it is near yet, and blocks lie pages apart.
            const std::uint32_t ahead = i + static_cast<std::uint32_t>(kFarAhead);
            if (ahead < run.blocks && of.block_max[run.first_block + ahead] >= floor) {
                PrefetchBlock(run.ahead(ahead), bytes);
            }
            const std::uint32_t block = run.first_block + i;
            if (!(of.block_max[block] >= floor)) continue;
            const auto least = hn::Set(d, floors.of_block(block));
            if (in_place && block != floors.block) {
                EachOfBf16(run.block(i), [&](V low, V high) HWY_ATTR { visit(low, high, least); });
            } else {
                WidenBlock(of.row.dtype, run.block(i), values);
                const std::uint64_t allowed = allowed_in_block(of.mask, block);
                if (allowed != ~std::uint64_t{0}) HideMasked(allowed, values);
                if (block == floors.block) floors.hide_equal(values);
                for (std::size_t at = 0; at < kBlock; at += 2 * lanes) {
                    visit(hn::LoadU(d, values + at), hn::LoadU(d, values + at + lanes), least);
                }
            }
            end_block();
        }
    }
}

double WeightOfBefore(const WeighedRow& of, const Candidate& place, float below) {
    const SumLanes d;
    const Weights weights(of.reference, of.scale);
    const PlaceFloors floors(place);
    const auto end = hn::Set(d, below);
    GroupedSum sum;
    const auto counted = [&](V value, V least) HWY_ATTR {
        return hn::IfThenElseZero(hn::And(hn::Ge(value, least), hn::Lt(value, end)), weights(value));
    };
    EachRegister(
        of, floors, floors.as_large,
        [&](V low, V high, V least) HWY_ATTR { sum.add(counted(low, least), counted(high, least)); },
        [&]() HWY_ATTR { sum.end_block(); });
    return sum.total() * weights.units_of(of.reference);
}

// What the largest of each block weighs where it is below `floor`.
double WeightOfMaximaBelow(const WeighedRow& of, const Weights& weights, float floor) {
    // As many float additions a lane as in the other sums.
    constexpr std::size_t kRegistersAtOnce = 32;
    const SumLanes d;
    const std::size_t lanes = hn::Lanes(d);
    const auto end = hn::Set(d, floor);
    const auto lowest = hn::Set(d, std::numeric_limits<float>::lowest());
    double total = 0.0;
    const std::size_t whole = of.block_max.size() - of.block_max.size() % lanes;
    for (std::size_t first = 0; first < whole; first += kRegistersAtOnce * lanes) {
        auto sum = hn::Zero(d);
        const std::size_t last = std::min(whole, first + kRegistersAtOnce * lanes);
        for (std::size_t b = first; b < last; b += lanes) {
            const auto value = hn::LoadU(d, of.block_max.data() + b);
            const auto counts = hn::And(hn::Ge(value, lowest), hn::Lt(value, end));
            sum = hn::Add(sum, hn::IfThenElseZero(counts, weights(value)));
        }
        total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
    }
    return total;
}

WeightBefore WeightBeforeAndLeast(const WeighedRow& of, const Candidate& place) {
    const SumLanes d;
    const Weights weights(of.reference, of.scale);
    const PlaceFloors floors(place);
    const auto lowest = hn::Set(d, std::numeric_limits<float>::lowest());
    GroupedSum before;
    GroupedSum all;
    EachRegister(
        of, floors, floors.as_large,
        [&](V low, V high, V least) HWY_ATTR {
            const auto low_weight = hn::IfThenElseZero(hn::Ge(low, lowest), weights(low));
            const auto high_weight = hn::IfThenElseZero(hn::Ge(high, lowest), weights(high));
            all.add(low_weight, high_weight);
            before.add(hn::IfThenElseZero(hn::Ge(low, least), low_weight),
                       hn::IfThenElseZero(hn::Ge(high, least), high_weight));
        },
        [&]() HWY_ATTR {
            before.end_block();
            all.end_block();
        });
    const double units = weights.units_of(of.reference);
    const double known = all.total() + WeightOfMaximaBelow(of, weights, floors.as_large);
    return {before.total() * units, known * units};
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
    const auto one = hn::Set(d, 1.0F);
    GroupedSum tokens;
    GroupedSum sum;
    GroupedSum products;
    const auto weighed = [&](V value, hn::Mask<SumLanes> finite)
                             HWY_ATTR { return hn::IfThenElseZero(finite, weights(value)); };
    // Of what was weighed in its place: the least weight times the distance of the lowest float is no small
    // sum.
    const auto from_reference = [&](V value)
                                    HWY_ATTR { return hn::Sub(weights.weighed_value(value), reference); };
    EachRegister(
        of, BehindAll(), std::numeric_limits<float>::lowest(),
        [&](V low, V high, V) HWY_ATTR {
            const auto low_finite = hn::Ge(low, lowest);
            const auto high_finite = hn::Ge(high, lowest);
            const auto low_weight = weighed(low, low_finite);
            const auto high_weight = weighed(high, high_finite);
            tokens.add(hn::IfThenElseZero(low_finite, one), hn::IfThenElseZero(high_finite, one));
            sum.add(low_weight, high_weight);
            products.add_product(low_weight, high_weight, from_reference(low), from_reference(high));
        },
        [&]() HWY_ATTR {
            tokens.end_block();
            sum.end_block();
            products.end_block();
        });
    const double units = weights.units_of(of.reference);
    return {tokens.total(), sum.total() * units, products.total() * units * of.scale};
}

Moments MomentsOf(const WeighedRow& of) {
    const SumLanes d;
    const auto reference = hn::Set(d, static_cast<float>(of.reference));
    const auto lowest = hn::Set(d, std::numeric_limits<float>::lowest());
    const auto one = hn::Set(d, 1.0F);
    GroupedSum tokens;
    GroupedSum distances;
    GroupedSum squares;
    EachRegister(
        of, BehindAll(), std::numeric_limits<float>::lowest(),
        [&](V low, V high, V) HWY_ATTR {
            const auto low_finite = hn::Ge(low, lowest);
            const auto high_finite = hn::Ge(high, lowest);
            const auto low_distance = hn::IfThenElseZero(low_finite, hn::Sub(low, reference));
            const auto high_distance = hn::IfThenElseZero(high_finite, hn::Sub(high, reference));
            tokens.add(hn::IfThenElseZero(low_finite, one), hn::IfThenElseZero(high_finite, one));
            distances.add(low_distance, high_distance);
            squares.add_product(low_distance, high_distance, low_distance, high_distance);
        },
        [&]() HWY_ATTR {
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

namespace {

const proto::RowSpread* given_spread(const WeighedRow& of) {
    const LeanBlocks* lean = of.row.lean;
    const bool given = lean != nullptr && lean->spread && lean->knows_under(of.mask) &&
                       of.reference == static_cast<double>(lean->largest);
    return given ? &*lean->spread : nullptr;
}

}  // namespace

// Of entries as low as -1e30 some sums are beyond what a writer's floats hold, and the others are not.
Spread spread_of(const WeighedRow& of) noexcept {
    const proto::RowSpread* given = given_spread(of);
    const bool weighed = given != nullptr && of.row.lean->spread_at == of.scale &&
                         std::isfinite(given->weight) && std::isfinite(given->moments);
    if (weighed) return {given->tokens, given->weight, given->moments * of.scale};
    return HWY_DYNAMIC_DISPATCH(SpreadOf)(of);
}

Moments moments_of(const WeighedRow& of) noexcept {
    const proto::RowSpread* given = given_spread(of);
    if (given != nullptr && std::isfinite(given->distances) && std::isfinite(given->squares))
        return {given->tokens, given->distances, given->squares};
    return HWY_DYNAMIC_DISPATCH(MomentsOf)(of);
}

}  // namespace croupier::sampler
#endif  // HWY_ONCE
