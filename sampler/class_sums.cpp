// Compiled once for each instruction set and chosen at run time. Masses are the same in all of them.
#include "sampler/class_sums.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "sampler/row_mask.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sampler/class_sums.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sampler/codes-inl.h"
#include "sampler/exp-inl.h"
#include "sampler/mask-inl.h"
#include "sampler/mass-inl.h"

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::Vec<MassLanes>;

void WeighValues(EqualClass* HWY_RESTRICT classes, std::size_t count, const Weigher& weigher) {
    constexpr std::size_t kTogether = 64;
    const MassLanes d;
    HWY_ALIGN double weights[kTogether] = {};
    HWY_ALIGN double masses[kTogether];
    for (std::size_t first = 0; first < count; first += kTogether) {
        const std::size_t some = std::min(kTogether, count - first);
        for (std::size_t i = 0; i < some; ++i) weights[i] = weigher.exponent(classes[first + i].value);
        for (std::size_t i = 0; i < some; i += hn::Lanes(d)) {
            const auto weight = exp_nonpositive_vector(d, hn::Load(d, weights + i));
            hn::Store(weight, d, weights + i);
            hn::Store(rounded_weights(weight), d, masses + i);
        }
        for (std::size_t i = 0; i < some; ++i) {
            EqualClass& each = classes[first + i];
            each.weight = weights[i];
            if (!each.is_mixed()) each.mass = std::bit_cast<Mass>(masses[i]) - kMassRounderBits;
        }
    }
}

// Room for what a mask leaves of two blocks.
struct LeftOfBlocks {
    HWY_ALIGN float values[2][kBlock];
};

// Shows each block that reaches the range to `visit`, what the mask hides of it being -inf. The block before
// it can still be read then.
template <class Visit>
HWY_INLINE void EachBlock(const RowRange& range, LeftOfBlocks& left, Visit visit) {
    constexpr std::size_t kBytes = kBlock * sizeof(float);
    std::size_t masked = 0;
    for (const BlockRun& run : range.row.runs) {
        WalkRun(run, kBytes, [&](std::uint32_t i, const std::byte* block) HWY_ATTR {
            const std::uint32_t number = run.first_block + i;
            if (!(range.block_max[number] >= range.least)) return;
            const std::uint64_t allowed = allowed_in_block(range.mask, number);
            if (allowed == ~std::uint64_t{0}) return visit(reinterpret_cast<const float*>(block));
            float* const own = left.values[masked++ % 2];
            std::memcpy(own, block, kBytes);
            HideMasked(allowed, own);
            visit(own);
        });
    }
}

HWY_INLINE void AddEach(const float* HWY_RESTRICT values, const Mass* HWY_RESTRICT masses, std::size_t count,
                        Mass* HWY_RESTRICT sums) {
    for (std::size_t i = 0; i < count; ++i) sums[std::bit_cast<std::uint32_t>(values[i]) >> 16U] += masses[i];
}

// While the masses of a block are computed, those of the block before it are added: the one is long chains of
// arithmetic, the other loads and stores.
void AddCodeMasses(const RowRange& range, const Weigher& weigher, Mass* HWY_RESTRICT sums) {
    const hn::RebindToUnsigned<MassLanes> du;
    const auto rounder = hn::Set(du, kMassRounderBits);
    HWY_ALIGN Mass masses[2][kBlock] = {};
    HWY_ALIGN float nothing[kBlock] = {};
    LeftOfBlocks left;
    const float* before = nothing;
    std::size_t blocks = 0;
    EachBlock(range, left, [&](const float* values) HWY_ATTR {
        Mass* const own = masses[blocks % 2];
        const Mass* const last = masses[++blocks % 2];
        for (std::size_t i = 0; i < kBlock; i += hn::Lanes(du)) {
            hn::Store(hn::Sub(rounded_masses(values + i, weigher), rounder), du, own + i);
            AddEach(before + i, last + i, hn::Lanes(du), sums);
        }
        before = values;
    });
    AddEach(before, masses[(blocks + 1) % 2], kBlock, sums);
}

// Calls visit(values, in_range) for each register of doubles.
template <class Visit>
HWY_INLINE void EachInRange(const RowRange& range, Visit visit) {
    const MassLanes d;
    const hn::Rebind<float, MassLanes> narrow;
    const auto least = hn::Set(d, static_cast<double>(range.least));
    const auto most = hn::Set(d, static_cast<double>(range.most));
    LeftOfBlocks left;
    EachBlock(range, left, [&](const float* values) HWY_ATTR {
        for (std::size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
            const auto value = hn::PromoteTo(d, hn::LoadU(narrow, values + i));
            visit(value, hn::And(hn::Ge(value, least), hn::Le(value, most)));
        }
    });
}

Mass MassOfRange(const RowRange& range, const Weigher& weigher) {
    const MassLanes d;
    const hn::RebindToUnsigned<MassLanes> du;
    const auto rounder = hn::Set(du, kMassRounderBits);
    auto sum = hn::Zero(du);
    EachInRange(range, [&](Doubles value, hn::Mask<MassLanes> within) HWY_ATTR {
        const auto exponent = hn::Mul(hn::Sub(value, hn::Set(d, weigher.maximum)), hn::Set(d, weigher.scale));
        const auto rounded = rounded_weights(exp_nonpositive_vector(d, exponent));
        const auto mass = hn::Sub(hn::BitCast(du, rounded), rounder);
        sum = hn::Add(sum, hn::IfThenElseZero(hn::RebindMask(du, within), mass));
    });
    return sum_of_lanes(sum);
}

// adaptive_logit(), operation for operation.
HWY_INLINE Doubles adaptive_logits(Doubles mass, const AdaptiveLogit& logit) {
    const MassLanes d;
    const auto c = [d](double value) HWY_ATTR { return hn::Set(d, value); };
    const auto probability = hn::Div(mass, c(logit.total));
    const auto distance = hn::Div(hn::Abs(hn::Sub(probability, c(logit.aim))), c(kAdaptiveWidth));
    const auto loss =
        hn::Div(hn::Mul(c(kAdaptiveSharpness), hn::Mul(distance, distance)), hn::Add(c(1.0), distance));
    return hn::Sub(c(kAdaptivePeak), loss);
}

HWY_INLINE Doubles masses_of_values(Doubles values, const Weigher& weigher) {
    const MassLanes d;
    const auto exponents = hn::Mul(hn::Sub(values, hn::Set(d, weigher.maximum)), hn::Set(d, weigher.scale));
    return hn::Sub(rounded_weights(exp_nonpositive_vector(d, exponents)), hn::Set(d, kMassRounder));
}

// The masses of their weights, with the rounder's bits still on them.
HWY_INLINE MassVector rounded_replaced(Doubles mass, const AdaptiveLogit& logit, double largest) {
    const MassLanes d;
    const auto exponent = hn::Sub(adaptive_logits(mass, logit), hn::Set(d, largest));
    return hn::BitCast(hn::RebindToUnsigned<MassLanes>(),
                       rounded_weights(exp_nonpositive_vector(d, exponent)));
}

void ReplaceLogits(Candidate* HWY_RESTRICT candidates, std::size_t count, const AdaptiveLogit& logit) {
    constexpr std::size_t kTogether = 64;
    const MassLanes d;
    HWY_ALIGN double values[kTogether] = {};
    for (std::size_t first = 0; first < count; first += kTogether) {
        const std::size_t some = std::min(kTogether, count - first);
        for (std::size_t i = 0; i < some; ++i) values[i] = candidates[first + i].value;
        for (std::size_t i = 0; i < some; i += hn::Lanes(d)) {
            const auto masses = masses_of_values(hn::Load(d, values + i), logit.weigher);
            hn::Store(adaptive_logits(masses, logit), d, values + i);
        }
        for (std::size_t i = 0; i < some; ++i) candidates[first + i].value = values[i];
    }
}

Mass ReplacedMassOfRange(const RowRange& range, const AdaptiveLogit& logit, double largest) {
    const hn::RebindToUnsigned<MassLanes> du;
    auto sum = hn::Zero(du);
    EachInRange(range, [&](Doubles value, hn::Mask<MassLanes> within) HWY_ATTR {
        const auto replaced = rounded_replaced(masses_of_values(value, logit.weigher), logit, largest);
        const auto mass = hn::Sub(replaced, hn::Set(du, kMassRounderBits));
        sum = hn::Add(sum, hn::IfThenElseZero(hn::RebindMask(du, within), mass));
    });
    return sum_of_lanes(sum);
}

Mass ReplacedMassOfValues(const EqualClass* HWY_RESTRICT classes, std::size_t count,
                          const AdaptiveLogit& logit, double largest) {
    constexpr std::size_t kTogether = 64;
    const MassLanes d;
    const hn::RebindToUnsigned<MassLanes> du;
    HWY_ALIGN double masses[kTogether] = {};
    HWY_ALIGN Mass replaced[kTogether];
    Mass sum = 0;
    for (std::size_t first = 0; first < count; first += kTogether) {
        const std::size_t some = std::min(kTogether, count - first);
        for (std::size_t i = 0; i < some; ++i) masses[i] = static_cast<double>(classes[first + i].mass);
        for (std::size_t i = 0; i < some; i += hn::Lanes(d))
            hn::Store(rounded_replaced(hn::Load(d, masses + i), logit, largest), du, replaced + i);
        for (std::size_t i = 0; i < some; ++i)
            sum += (replaced[i] - kMassRounderBits) * classes[first + i].size;
    }
    return sum;
}

EntropySums EntropySumsOfRange(const RowRange& range, const Weigher& weigher) {
    const MassLanes d;
    const hn::RebindToUnsigned<MassLanes> du;
    const auto rounder = hn::Set(d, kMassRounder);
    const auto rounder_bits = hn::Set(du, kMassRounderBits);
    auto total = hn::Zero(du);
    auto products = hn::Zero(du);
    EachInRange(range, [&](Doubles value, hn::Mask<MassLanes> within) HWY_ATTR {
        const auto exponent = hn::Mul(hn::Sub(value, hn::Set(d, weigher.maximum)), hn::Set(d, weigher.scale));
        const auto rounded = rounded_weights(exp_nonpositive_vector(d, exponent));
        const auto mass = hn::Sub(rounded, rounder);
        const auto product = hn::Add(hn::Mul(mass, hn::Neg(exponent)), rounder);
        const auto counts = hn::RebindMask(du, within);
        total = hn::Add(total, hn::IfThenElseZero(counts, hn::Sub(hn::BitCast(du, rounded), rounder_bits)));
        products =
            hn::Add(products, hn::IfThenElseZero(counts, hn::Sub(hn::BitCast(du, product), rounder_bits)));
    });
    return {sum_of_lanes(total), sum_of_lanes(products)};
}

DistanceSums SumOfDistances(const RowRange& range, double reference) {
    const MassLanes d;
    auto tokens = hn::Zero(d);
    auto distances = hn::Zero(d);
    auto squares = hn::Zero(d);
    EachInRange(range, [&](Doubles value, hn::Mask<MassLanes> within) HWY_ATTR {
        const auto distance = hn::IfThenElseZero(within, hn::Sub(value, hn::Set(d, reference)));
        tokens = hn::Add(tokens, hn::IfThenElseZero(within, hn::Set(d, 1.0)));
        distances = hn::Add(distances, distance);
        squares = hn::Add(squares, hn::Mul(distance, distance));
    });
    return {hn::GetLane(hn::SumOfLanes(d, tokens)), hn::GetLane(hn::SumOfLanes(d, distances)),
            hn::GetLane(hn::SumOfLanes(d, squares))};
}

}  // namespace croupier::sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace croupier::sampler {

HWY_EXPORT(WeighValues);
HWY_EXPORT(MassOfRange);
HWY_EXPORT(AddCodeMasses);
HWY_EXPORT(ReplaceLogits);
HWY_EXPORT(ReplacedMassOfRange);
HWY_EXPORT(ReplacedMassOfValues);
HWY_EXPORT(EntropySumsOfRange);
HWY_EXPORT(SumOfDistances);

namespace {

// Without the tokens that have no mass, because they weigh less than half of its unit. (No float lies between
// this floor and what it is rounded to.)
RowRange massive(RowRange range, const Weigher& weigher) {
    constexpr double kNoMass = 31.0;
    range.least = std::max(range.least, static_cast<float>(weigher.maximum - kNoMass / weigher.scale));
    return range;
}

}  // namespace

std::uint32_t count_tokens(std::span<const EqualClass> classes) noexcept {
    std::uint32_t tokens = 0;
    for (const EqualClass& each : classes) tokens += each.size;
    return tokens;
}

void weigh_values(std::span<EqualClass> classes, const Weigher& weigher) noexcept {
    HWY_DYNAMIC_DISPATCH(WeighValues)(classes.data(), classes.size(), weigher);
}

Mass mass_of_range(const RowRange& range, const Weigher& weigher) noexcept {
    return HWY_DYNAMIC_DISPATCH(MassOfRange)(massive(range, weigher), weigher);
}

void add_code_masses(const RowRange& range, const Weigher& weigher, std::span<Mass> masses) noexcept {
    HWY_DYNAMIC_DISPATCH(AddCodeMasses)(massive(range, weigher), weigher, masses.data());
}

void replace_logits(std::span<Candidate> candidates, const AdaptiveLogit& logit) noexcept {
    HWY_DYNAMIC_DISPATCH(ReplaceLogits)(candidates.data(), candidates.size(), logit);
}

Mass replaced_mass_of_range(const RowRange& range, const AdaptiveLogit& logit, double largest) noexcept {
    return HWY_DYNAMIC_DISPATCH(ReplacedMassOfRange)(range, logit, largest);
}

Mass replaced_mass_of_values(std::span<const EqualClass> classes, const AdaptiveLogit& logit,
                             double largest) noexcept {
    return HWY_DYNAMIC_DISPATCH(ReplacedMassOfValues)(classes.data(), classes.size(), logit, largest);
}

EntropySums entropy_sums_of_range(const RowRange& range, const Weigher& weigher) noexcept {
    return HWY_DYNAMIC_DISPATCH(EntropySumsOfRange)(massive(range, weigher), weigher);
}

DistanceSums sum_of_distances(const RowRange& range, double reference) noexcept {
    return HWY_DYNAMIC_DISPATCH(SumOfDistances)(range, reference);
}

}  // namespace croupier::sampler
#endif  // HWY_ONCE
