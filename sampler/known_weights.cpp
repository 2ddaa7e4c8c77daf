// Compiled once for each instruction set and chosen at run time.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "sampler/row_mask.h"
#include "sampler/row_mass.h"
#include "sampler/row_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sampler/known_weights.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sampler/mask-inl.h"
#include "sampler/row_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// What the mask hides is nothing.
HWY_INLINE void WidenAllowed(const WeighedRow& of, std::uint32_t block, const std::byte* elements,
                             float* HWY_RESTRICT values) {
    WidenBlock(of.row.dtype, elements, values);
    if (!of.mask.empty()) HideMasked(allowed_in_block(of.mask, block), values);
}

template <class Visit>
HWY_INLINE void EachOfBlock(const WeighedRow& of, const PlaceFloors& floors, std::uint32_t block,
                            Visit visit) {
    const SumLanes d;
    const std::size_t lanes = hn::Lanes(d);
    const std::byte* elements = of.row.lean->at[block];
    const auto least = hn::Set(d, floors.of_block(block));
    if (of.row.dtype == proto::Dtype::bf16 && of.mask.empty() && block != floors.block) {
        return EachOfBf16(elements, [&](V low, V high) HWY_ATTR { visit(low, high, least); });
    }
    HWY_ALIGN float values[kBlock];
    WidenAllowed(of, block, elements, values);
    if (block == floors.block) floors.hide_equal(values);
    for (std::size_t at = 0; at < kBlock; at += 2 * lanes) {
        visit(hn::LoadU(d, values + at), hn::LoadU(d, values + at + lanes), least);
    }
}

// The blocks of a row that are there, each as EachRegister() shows it.
template <class Visit, class EndBlock>
HWY_INLINE void EachThere(const WeighedRow& of, const PlaceFloors& floors, Visit visit, EndBlock end_block) {
    const LeanBlocks& lean = *of.row.lean;
    for (std::uint32_t first = 0; first < of.row.blocks; first += 64) {
        for (std::uint64_t bits = lean.there[first / 64]; bits != 0; bits &= bits - 1) {
            EachOfBlock(of, floors, first + static_cast<std::uint32_t>(std::countr_zero(bits)), visit);
            end_block();
        }
    }
}

// What stands before the place, in the weights' units, where every block that holds some of it is there: of
// most winners those are few. Nothing: of some it is not known.
std::optional<double> WeighBefore(const WeighedRow& of, const Weights& weights, const PlaceFloors& floors) {
    const LeanBlocks& lean = *of.row.lean;
    const auto reached_from = [&](std::uint32_t first) {
        const std::size_t some = std::min<std::size_t>(64, of.row.blocks - first);
        return ReachedBits(of.block_max.data() + first, some, floors.as_large);
    };
    // All blocks are checked first, because weighing is expensive.
    for (std::uint32_t first = 0; first < of.row.blocks; first += 64) {
        if ((reached_from(first) & ~lean.there[first / 64]) != 0) return std::nullopt;
    }
    GroupedSum before;
    for (std::uint32_t first = 0; first < of.row.blocks; first += 64) {
        for (std::uint64_t reached = reached_from(first); reached != 0; reached &= reached - 1) {
            EachOfBlock(of, floors, first + static_cast<std::uint32_t>(std::countr_zero(reached)),
                        [&](V low, V high, V least) HWY_ATTR {
                            before.add(hn::IfThenElseZero(hn::Ge(low, least), weights(low)),
                                       hn::IfThenElseZero(hn::Ge(high, least), weights(high)));
                        });
            before.end_block();
        }
    }
    return before.total();
}

// Of the blocks that are not there what stands before or behind the place for sure: the largest entry, or all
// of the block where it stands behind, or what is left of it where all others that may not stand before weigh
// as much as the place does.
void AddAbsent(const WeighedRow& of, const Weights& weights, const PlaceFloors& floors, KnownWeights& known) {
    // A difference of weights is off by what both are off.
    constexpr auto kOff = static_cast<float>(2.0 * kWeightError);
    const SumLanes d;
    const std::size_t lanes = hn::Lanes(d);
    const LeanBlocks& lean = *of.row.lean;
    const auto lowest = hn::Set(d, std::numeric_limits<float>::lowest());
    const auto as_large = hn::Set(d, floors.as_large);
    const auto larger = hn::Set(d, floors.larger);
    const auto others = hn::Mul(hn::Set(d, static_cast<float>(kBlock - 1) * (1.0F + kOff)), weights(larger));
    GroupedSum sums[2];
    std::size_t b = 0;
    const auto add = [&](V value, V least, hn::Mask<SumLanes> absent) HWY_ATTR {
        const auto weight = weights(value);
        const auto all = hn::Mul(weight, least);
        const auto above = hn::Max(weight, hn::Sub(hn::Mul(all, hn::Set(d, 1.0F - kOff)), others));
        const auto reaches = hn::And(absent, hn::Ge(value, as_large));
        const auto behind = hn::And(hn::And(absent, hn::Ge(value, lowest)), hn::Lt(value, as_large));
        sums[0].add(hn::IfThenElseZero(hn::And(reaches, hn::Ge(value, larger)), above), hn::Zero(d));
        sums[1].add(hn::IfThenElseZero(behind, all), hn::Zero(d));
        if (b / lanes % 4 == 3) sums[0].end_block(), sums[1].end_block();
    };
    HWY_ALIGN float rest[kLanes];
    HWY_ALIGN float ones[kLanes];
    std::fill_n(ones, kLanes, 1.0F);
    HWY_ALIGN float rest_least[kLanes];
    const bool weighed = lean.knows_weights;
    for (; b < of.block_max.size(); b += lanes) {
        const std::size_t some = std::min(lanes, of.block_max.size() - b);
        const float* values = of.block_max.data() + b;
        const float* least = weighed ? lean.least_weight.data() + b : ones;
        if (some < lanes) {
            std::fill_n(rest, kLanes, kNone);
            std::fill_n(rest_least, kLanes, 1.0F);
            values = std::copy_n(values, some, rest) - some;
            least = std::copy_n(least, some, rest_least) - some;
        }
        add(hn::LoadU(d, values), hn::LoadU(d, least), hn::Not(LanesOf(d, lean.there[b / 64], b % 64)));
    }
    known.before += sums[0].total();
    known.behind += sums[1].total();
}

KnownWeights WeighKnown(const WeighedRow& of, const Candidate& place) {
    const SumLanes d;
    const Weights weights(of.reference, of.scale);
    const PlaceFloors floors(place);
    const auto lowest = hn::Set(d, std::numeric_limits<float>::lowest());
    const double units = weights.units_of(of.reference);
    GroupedSum before;
    GroupedSum behind;
    EachThere(
        of, floors,
        [&](V low, V high, V least) HWY_ATTR {
            const auto low_weight = hn::IfThenElseZero(hn::Ge(low, lowest), weights(low));
            const auto high_weight = hn::IfThenElseZero(hn::Ge(high, lowest), weights(high));
            const auto low_before = hn::Ge(low, least);
            const auto high_before = hn::Ge(high, least);
            before.add(hn::IfThenElseZero(low_before, low_weight),
                       hn::IfThenElseZero(high_before, high_weight));
            behind.add(hn::IfThenZeroElse(low_before, low_weight),
                       hn::IfThenZeroElse(high_before, high_weight));
        },
        [&]() HWY_ATTR {
            before.end_block();
            behind.end_block();
        });
    KnownWeights known{before.total(), behind.total()};
    AddAbsent(of, weights, floors, known);
    known.before *= units;
    known.behind *= units;
    return known;
}

void AskForBefore(const WeighedRow& of, const Candidate& place) {
    LeanBlocks& lean = *of.row.lean;
    const float least = PlaceFloors(place).as_large;
    for (std::uint32_t first = 0; first < of.row.blocks; first += 64) {
        const std::size_t some = std::min<std::size_t>(64, of.row.blocks - first);
        const std::uint64_t reached = ReachedBits(of.block_max.data() + first, some, least);
        for (std::uint64_t bits = reached & ~lean.there[first / 64]; bits != 0; bits &= bits - 1)
            (void)lean.block(first + static_cast<std::uint32_t>(std::countr_zero(bits)));
    }
}

std::optional<double> WeighBeforePlace(const WeighedRow& of, const Candidate& place) {
    const Weights weights(of.reference, of.scale);
    const auto before = WeighBefore(of, weights, PlaceFloors(place));
    return before ? std::optional(*before * weights.units_of(of.reference)) : std::nullopt;
}

// Few values are before the place, or few blocks: the weights are made one by one.
double WeighBeforeExactly(const WeighedRow& of, const Candidate& place) {
    const PlaceFloors floors(place);
    const SumLanes d;
    const std::size_t lanes = hn::Lanes(d);
    HWY_ALIGN float values[2 * kLanes];
    double before = 0.0;
    for (std::uint32_t first = 0; first < of.row.blocks; first += 64) {
        const std::size_t some = std::min<std::size_t>(64, of.row.blocks - first);
        std::uint64_t reached = ReachedBits(of.block_max.data() + first, some, floors.as_large);
        for (; reached != 0; reached &= reached - 1) {
            const std::uint32_t block = first + static_cast<std::uint32_t>(std::countr_zero(reached));
            EachOfBlock(of, floors, block, [&](V low, V high, V least) HWY_ATTR {
                hn::Store(hn::IfThenElse(hn::Ge(low, least), low, hn::Set(d, kNone)), d, values);
                hn::Store(hn::IfThenElse(hn::Ge(high, least), high, hn::Set(d, kNone)), d, values + lanes);
                for (std::size_t i = 0; i < 2 * lanes; ++i) {
                    if (values[i] == kNone) continue;
                    before += exp_of((static_cast<double>(values[i]) - of.reference) * of.scale);
                }
            });
        }
    }
    return before;
}

// Shows the values of each block that may have some, those that are taken as nothing, and the bits of the
// others.
template <class Visit, class Rest>
HWY_INLINE void EachLeft(const WeighedRow& of, std::span<const std::uint64_t> taken, float floor, Visit visit,
                         Rest rest) {
    HWY_ALIGN float values[kBlock];
    for (std::uint32_t first = 0; first < of.row.blocks; first += 64) {
        const std::size_t some = std::min<std::size_t>(64, of.row.blocks - first);
        const std::uint64_t reached = ReachedBits(of.block_max.data() + first, some, floor);
        const std::uint64_t there =
            of.row.lean == nullptr ? ~std::uint64_t{0} : of.row.lean->there[first / 64];
        rest(first, some, ~(reached & there));
        for (std::uint64_t bits = reached & there; bits != 0; bits &= bits - 1) {
            const std::uint32_t block = first + static_cast<std::uint32_t>(std::countr_zero(bits));
            WidenAllowed(of, block, of.row.block(block), values);
            for (std::uint64_t each = taken[block]; each != 0; each &= each - 1)
                values[std::countr_zero(each)] = kNone;
            visit(block, values);
        }
    }
}

LeftWeights WeighLeft(const WeighedRow& of, const Candidate& place, std::span<const std::uint64_t> taken,
                      double highest, float floor) {
    const SumLanes d;
    const std::size_t lanes = hn::Lanes(d);
    auto most = hn::Set(d, kNone);
    EachLeft(
        of, taken, floor,
        [&](std::uint32_t, const float* values) HWY_ATTR {
            for (std::size_t at = 0; at < kBlock; at += lanes)
                most = hn::Max(most, hn::LoadU(d, values + at));
        },
        [](std::uint32_t, std::size_t, std::uint64_t) {});
    LeftWeights left;
    left.highest = std::max(highest, static_cast<double>(hn::GetLane(hn::MaxOfLanes(d, most))));
    // The taken tokens may be the only ones within float's reach.
    if (!can_be_weighed(left.highest, of.scale)) return {};
    const Weights weights(left.highest, of.scale);
    const PlaceFloors floors(place);
    const auto lowest = hn::Set(d, std::numeric_limits<float>::lowest());
    GroupedSum all;
    GroupedSum before;
    const auto add = [&](GroupedSum& to, const float* values, V least) HWY_ATTR {
        for (std::size_t at = 0; at < kBlock; at += 2 * lanes) {
            const auto low = hn::LoadU(d, values + at);
            const auto high = hn::LoadU(d, values + at + lanes);
            to.add(hn::IfThenElseZero(hn::Ge(low, least), weights(low)),
                   hn::IfThenElseZero(hn::Ge(high, least), weights(high)));
        }
        to.end_block();
    };
    GroupedSum others;
    EachLeft(
        of, taken, floor,
        [&](std::uint32_t block, float* values) HWY_ATTR {
            add(all, values, lowest);
            if (block == floors.block) floors.hide_equal(values);
            add(before, values, hn::Set(d, floors.of_block(block)));
        },
        [&](std::uint32_t first, std::size_t some, std::uint64_t bits) HWY_ATTR {
            HWY_ALIGN float values[kBlock];
            std::fill_n(values, kBlock, kNone);
            for (std::size_t i = 0; i < some; ++i) {
                if ((bits >> i & 1U) != 0) values[i] = of.block_max[first + i];
            }
            add(others, values, lowest);
        });
    const double units = weights.units_of(left.highest);
    left.all = all.total() * units;
    left.before = before.total() * units;
    left.rest = others.total() * units * kBlock;
    return left;
}

}  // namespace croupier::sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace croupier::sampler {

HWY_EXPORT(WeighKnown);
HWY_EXPORT(WeighBeforePlace);
HWY_EXPORT(WeighBeforeExactly);
HWY_EXPORT(WeighLeft);
HWY_EXPORT(AskForBefore);

KnownWeights weigh_known(const WeighedRow& of, const Candidate& place) noexcept {
    return HWY_DYNAMIC_DISPATCH(WeighKnown)(of, place);
}

std::optional<double> weigh_before(const WeighedRow& of, const Candidate& place) noexcept {
    return HWY_DYNAMIC_DISPATCH(WeighBeforePlace)(of, place);
}

double weigh_before_exactly(const WeighedRow& of, const Candidate& place) noexcept {
    return HWY_DYNAMIC_DISPATCH(WeighBeforeExactly)(of, place);
}

LeftWeights weigh_left(const WeighedRow& of, const Candidate& place, std::span<const std::uint64_t> taken,
                       double highest, float floor) noexcept {
    return HWY_DYNAMIC_DISPATCH(WeighLeft)(of, place, taken, highest, floor);
}

void ask_for_before(const WeighedRow& of, const Candidate& place) noexcept {
    HWY_DYNAMIC_DISPATCH(AskForBefore)(of, place);
}

}  // namespace croupier::sampler
#endif  // HWY_ONCE
