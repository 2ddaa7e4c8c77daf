// Compiled once for each instruction set and chosen at run time. Sixteen lanes, whatever the width of a
// register: the sums have the same bits wherever products are fused, which is everywhere but on SSE4 and
// older.
#include "sampler/row_mass.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "sampler/row_mask.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sampler/row_mass.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sampler/block_groups.h"
#include "sampler/codes-inl.h"
#include "sampler/mask-inl.h"
#include "sampler/mass-inl.h"
#include "sampler/weights-inl.h"
#include "sampler/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The weights of a group of blocks, each in the lane of its place in the block: the same additions in the
// same order whatever the width of a register.
class LaneSums {
  public:
    HWY_ATTR explicit LaneSums(const Weights& weigh) : weigh_(weigh) {
        for (V& sum : sums_) sum = hn::Zero(SumLanes());
    }

    void add_blocks(const BlockGroup& group) {
        if (group.stride > 0) return add_even(group.first, group.stride, group.blocks);
        add_uneven(group);
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

    // Apart from the scan: it and the constants leave no register to spare. And apart from each other:
    // pointers that have to be fetched cost a twentieth of all.
    HWY_NOINLINE void add_even(const std::byte* first, std::size_t stride, std::uint32_t blocks) {
        add_each(blocks, [=](std::uint32_t block) HWY_ATTR { return first + block * stride; });
    }
    HWY_NOINLINE void add_uneven(const BlockGroup& group) {
        add_each(group.blocks, [&group](std::uint32_t block) HWY_ATTR { return group.at[block]; });
    }
    // A register of sums after the other.
    template <class BlockAt>
    HWY_INLINE void add_each(std::uint32_t blocks, BlockAt block_at) {
        const hn::CappedTag<std::uint16_t, kLanes * 2> d;
        for (std::size_t part = 0; part < kRegisters; ++part) {
            V sum = sums_[part];
            for (std::uint32_t block = 0; block < blocks; ++block) {
                const auto* codes = reinterpret_cast<const std::uint16_t*>(block_at(block));
                for (std::size_t i = part * hn::Lanes(d); i < kBlock; i += kRegisters * hn::Lanes(d)) {
                    sum = hn::Add(sum, weigh_both(hn::LoadU(d, codes + i)));
                }
            }
            sums_[part] = sum;
        }
    }

    HWY_INLINE void add_lanes(std::size_t lane, V weights) {
        V& sum = sums_[lane / hn::MaxLanes(SumLanes()) % kRegisters];
        sum = hn::Add(sum, weights);
    }

    const Weights weigh_;
    V sums_[kRegisters];
};

double GroupBf16(const Weights& weigh, const BlockGroup& group) {
    LaneSums sums(weigh);
    sums.add_blocks(group);
    return sums.total();
}

// Where the row is not bf16, or a mask hides some of it.
double GroupWidened(const Weights& weigh, const float* values, std::uint32_t blocks) {
    const SumLanes d;
    LaneSums sums(weigh);
    for (std::size_t i = 0; i < std::size_t{blocks} * kBlock; i += hn::Lanes(d)) {
        sums.add_widened(i, hn::LoadU(d, values + i));
    }
    return sums.total();
}

// The group's elements as floats, those that the mask hides -inf.
void WidenGroup(const MassQuery& query, const BlockGroup& group, float* HWY_RESTRICT values) {
    for (std::uint32_t i = 0; i < group.blocks; ++i) {
        float* own = values + std::size_t{i} * kBlock;
        WidenBlock(query.row.dtype, group.block(i), own);
        if (query.mask.empty()) continue;
        HideMasked(allowed_in_block(query.mask, group.first_block + i), own);
    }
}

// Asks for blocks before a pass comes to them. Where the maxima came with the row none of it is near yet, and
// in a batch's slice each block lies on a page of its own: no processor would ask for them by itself.
class Scout {
  public:
    HWY_ATTR explicit Scout(const BlockedRow& row)
        : walk_(row), bytes_(proto::element_bytes(row.dtype) * std::size_t{kBlock}) {
        for (std::size_t i = 0; i < kFarAhead / kGroup; ++i) go();
    }

    HWY_ATTR void go() {
        if (!walk_.next(group_)) return;
        for (std::uint32_t i = 0; i < group_.blocks; ++i) PrefetchBlock(group_.block(i), bytes_);
    }

  private:
    GroupWalk walk_;
    std::size_t bytes_;
    BlockGroup group_;
};

double TotalWeight(const MassQuery& query) {
    const Weights weights(query.maximum, query.scale);
    HWY_ALIGN float values[kGroup * kBlock];
    double total = 0.0;
    GroupWalk walk(query.row);
    Scout scout(query.row);
    BlockGroup group;
    while (walk.next(group)) {
        scout.go();
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
ScannedWeight ScanAndWeigh(const BlockedRow& row, double scale, float* HWY_RESTRICT block_max) {
    Codes<std::uint16_t> codes;
    const auto reference = static_cast<double>(SampledMaximum(row, codes));
    const Weights weights(reference, scale);
    double maximum = reference;
    double total = 0.0;
    const auto scan = [&](const BlockGroup& group, auto block_at, auto ahead_of) HWY_ATTR {
        for (std::uint32_t i = 0; i < group.blocks; ++i) {
            const std::byte* const block = block_at(i);
            PrefetchBlock(ahead_of(i, block), Codes<std::uint16_t>::kWidth);
            const auto largest = codes.largest_of_block(reinterpret_cast<const std::uint16_t*>(block));
            block_max[group.first_block + i] = Bf16::of(largest);
            maximum = std::max(maximum, static_cast<double>(Bf16::of(largest)));
        }
    };
    GroupWalk walk(row);
    GroupWalk scout(row);
    BlockGroup group;
    BlockGroup ahead;
    for (std::size_t i = 0; i < kAhead / kGroup; ++i) (void)scout.next(ahead);
    while (walk.next(group)) {
        const bool more = scout.next(ahead);
        LaneSums sums(weights);
        if (group.stride > 0) {
            const std::byte* const first = group.first;
            const std::size_t stride = group.stride;
            scan(
                group, [=](std::uint32_t i) HWY_ATTR { return first + i * stride; },
                [=](std::uint32_t, const std::byte* block) HWY_ATTR { return block + kAhead * stride; });
        } else {
            scan(
                group, [&](std::uint32_t i) HWY_ATTR { return group.at[i]; },
                [&](std::uint32_t i, const std::byte* block)
                    HWY_ATTR { return more && i < ahead.blocks ? ahead.block(i) : block; });
        }
        sums.add_blocks(group);
        total += sums.total();
    }
    const bool near = maximum - reference <= Weights::kFarthest / scale;
    return {maximum, near ? total * weights.units_of(maximum) : 0.0, codes.largest_code()};
}

Mass TotalMass(const MassQuery& query) {
    HWY_ALIGN float values[kGroup * kBlock];
    const Weigher weigher = {query.maximum, query.scale};
    Mass total = 0;
    GroupWalk walk(query.row);
    Scout scout(query.row);
    BlockGroup group;
    while (walk.next(group)) {
        scout.go();
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

bool can_be_weighed(double maximum, double scale) noexcept {
    // Beyond it the product of a float logit and the slope leaves too few bits, or none, for what is behind
    // the point.
    constexpr double kLargestArgument = 1e6;
    return std::abs(maximum) * scale < kLargestArgument;
}

std::optional<double> known_weight(const MassQuery& query, std::span<const Weighed> known) noexcept {
    const auto answers = [&query](const Weighed& each) {
        return each.maximum == query.maximum && each.scale == query.scale;
    };
    const auto answer = std::find_if(known.begin(), known.end(), answers);
    const LeanBlocks* lean = query.row.lean;
    const bool holds = lean != nullptr ? lean->knows_under(query.mask) : query.mask.empty();
    return holds && answer != known.end() ? std::optional(answer->total) : std::nullopt;
}

double total_weight(const MassQuery& query, std::span<const Weighed> known) noexcept {
    if (const auto weight = known_weight(query, known)) return *weight;
    if (can_be_weighed(query.maximum, query.scale)) return HWY_DYNAMIC_DISPATCH(TotalWeight)(query);
    return static_cast<double>(HWY_DYNAMIC_DISPATCH(TotalMass)(query)) / kMassUnit;
}

RowFault scan_and_weigh(const BlockedRow& row, double scale, Workspace& workspace) noexcept {
    const std::span<float> block_max = workspace.block_max.first(row.blocks);
    const ScannedWeight scanned = HWY_DYNAMIC_DISPATCH(ScanAndWeigh)(row, scale, block_max.data());
    const bool known = scanned.total > 0.0 && can_be_weighed(scanned.maximum, scale);
    if (known) workspace.weighed.front() = {scanned.maximum, scale, scanned.total};
    return judge_scan(row.dtype, scanned.largest_code, block_max);
}

}  // namespace croupier::sampler
#endif  // HWY_ONCE
