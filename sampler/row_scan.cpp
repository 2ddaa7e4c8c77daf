// Compiled once for each instruction set and chosen at run time: maxima and comparisons are the same in all.
#include "sampler/row_scan.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>

#include "sampler/row_mask.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sampler/row_scan.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sampler/codes-inl.h"
#include "sampler/mask-inl.h"
#include "sampler/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <typename Code, typename ToFloat>
void ScanRun(Codes<Code>& codes, const BlockRun& run, ToFloat to_float, float* HWY_RESTRICT block_max) {
    WalkRun(run, Codes<Code>::kWidth, [&](std::uint32_t i, const std::byte* block) HWY_ATTR {
        block_max[i] = to_float(codes.largest_of_block(reinterpret_cast<const Code*>(block)));
    });
}

template <typename Code, typename ToFloat>
std::uint32_t ScanRow(const BlockedRow& row, ToFloat to_float, float* HWY_RESTRICT block_max) {
    Codes<Code> codes;
    for (const BlockRun& run : row.runs) ScanRun<Code>(codes, run, to_float, block_max + run.first_block);
    return codes.largest_code();
}

// Of several in flight: one alone would wait for itself.
template <class Format>
Widened WidenAll(const std::byte* HWY_RESTRICT codes, std::size_t count, float* HWY_RESTRICT values) {
    const Floats d;
    const hn::RebindToSigned<Floats> di;
    constexpr std::size_t kTogether = 4;
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const std::size_t lanes = hn::Lanes(d);
    const auto infinity = hn::Set(d, kInfinity);
    hn::Vec<Floats> most[kTogether];
    hn::Vec<hn::RebindToSigned<Floats>> below[kTogether];
    for (auto& each : most) each = hn::Set(d, -kInfinity);
    for (auto& each : below) each = hn::Set(di, -1);
    std::size_t i = 0;
    for (; i + kTogether * lanes <= count; i += kTogether * lanes) {
        for (std::size_t j = 0; j < kTogether; ++j) {
            const auto some = Format::widen(codes, i + j * lanes);
            hn::StoreU(some, d, values + i + j * lanes);
            most[j] = hn::Max(most[j], some);
            below[j] = hn::And(below[j], hn::BitCast(di, hn::VecFromMask(d, hn::Lt(some, infinity))));
        }
    }
    const auto all = hn::And(hn::And(below[0], below[1]), hn::And(below[2], below[3]));
    HWY_ALIGN float last[16];
    hn::Store(hn::Max(hn::Max(most[0], most[1]), hn::Max(most[2], most[3])), d, last);
    Widened widened{*std::max_element(last, last + lanes), hn::AllTrue(di, hn::Lt(all, hn::Zero(di)))};
    for (; i < count; ++i) {
        values[i] = Format::value(codes, i);
        widened.largest = std::max(widened.largest, values[i]);
        widened.sound = widened.sound && values[i] < kInfinity;
    }
    return widened;
}

Widened WidenCodes(proto::Dtype dtype, const std::byte* codes, std::size_t count, float* values) {
    switch (dtype) {
        case proto::Dtype::bf16:
            return WidenAll<Bf16>(codes, count, values);
        case proto::Dtype::fp16:
            return WidenAll<Fp16>(codes, count, values);
        case proto::Dtype::fp32:
            break;
    }
    return WidenAll<Fp32>(codes, count, values);
}

// Returns the largest code, unsigned.
std::uint32_t ScanMaxima(const BlockedRow& row, float* HWY_RESTRICT block_max) {
    return WithCodes(row.dtype, [&](auto code, auto to_float) {
        return ScanRow<decltype(code)>(row, to_float, block_max);
    });
}

std::size_t CountAtLeast(const float* HWY_RESTRICT values, std::size_t count, float floor) {
    const Floats d;
    const hn::RebindToSigned<Floats> di;
    const std::size_t lanes = hn::Lanes(d);
    const auto bound = hn::Set(d, floor);
    auto counts = hn::Zero(di);
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        const auto reached = hn::Ge(hn::LoadU(d, values + i), bound);
        counts = hn::Sub(counts, hn::BitCast(di, hn::VecFromMask(d, reached)));
    }
    std::size_t total = static_cast<std::size_t>(hn::GetLane(hn::SumOfLanes(di, counts)));
    for (; i < count; ++i) total += values[i] >= floor ? 1 : 0;
    return total;
}

void CountAtLeastEach(const float* HWY_RESTRICT values, std::size_t count, std::span<const float> floors,
                      std::span<std::uint32_t> counts) {
    const Floats d;
    const hn::RebindToSigned<Floats> di;
    constexpr std::size_t kMost = kMostFloors;
    hn::Vec<hn::RebindToSigned<Floats>> reached[kMost];
    for (auto& each : reached) each = hn::Zero(di);
    hn::Vec<Floats> bounds[kMost];
    for (std::size_t j = 0; j < kMost; ++j) bounds[j] = hn::Set(d, floors[std::min(j, floors.size() - 1)]);
    std::size_t i = 0;
    for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
        const auto some = hn::LoadU(d, values + i);
        for (std::size_t j = 0; j < kMost; ++j) {
            reached[j] = hn::Sub(reached[j], hn::BitCast(di, hn::VecFromMask(d, hn::Ge(some, bounds[j]))));
        }
    }
    for (std::size_t j = 0; j < floors.size(); ++j) {
        counts[j] = static_cast<std::uint32_t>(hn::GetLane(hn::SumOfLanes(di, reached[j])));
        for (std::size_t rest = i; rest < count; ++rest) counts[j] += values[rest] >= floors[j] ? 1U : 0U;
    }
}

// Or -inf: neither NaN nor +inf is below +inf.
bool NoneInfinite(const float* HWY_RESTRICT values, std::size_t count) {
    const Floats d;
    const hn::RebindToSigned<Floats> di;
    const std::size_t lanes = hn::Lanes(d);
    const auto infinity = hn::Set(d, std::numeric_limits<float>::infinity());
    auto below = hn::Set(di, -1);
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        const auto finite = hn::Lt(hn::LoadU(d, values + i), infinity);
        below = hn::And(below, hn::BitCast(di, hn::VecFromMask(d, finite)));
    }
    bool all = hn::AllTrue(di, hn::Lt(below, hn::Zero(di)));
    for (; i < count; ++i) all = all && values[i] < std::numeric_limits<float>::infinity();
    return all;
}

float LargestOf(const float* HWY_RESTRICT values, std::size_t count) {
    const Floats d;
    constexpr std::size_t kTogether = 4;
    const std::size_t lanes = hn::Lanes(d);
    hn::Vec<Floats> most[kTogether];
    for (auto& each : most) each = hn::Set(d, -std::numeric_limits<float>::infinity());
    std::size_t i = 0;
    for (; i + kTogether * lanes <= count; i += kTogether * lanes) {
        for (std::size_t j = 0; j < kTogether; ++j)
            most[j] = hn::Max(most[j], hn::LoadU(d, values + i + j * lanes));
    }
    // Not MaxOfLanes: in Highway's emulation that of nothing but -inf is the lowest number.
    HWY_ALIGN float last[16];
    hn::Store(hn::Max(hn::Max(most[0], most[1]), hn::Max(most[2], most[3])), d, last);
    float largest = *std::max_element(last, last + lanes);
    for (; i < count; ++i) largest = std::max(largest, values[i]);
    return largest;
}

// Of those whose bits are not set.
float LargestWithout(std::span<const float> values, const std::uint64_t* HWY_RESTRICT bits) {
    const Floats d;
    const std::size_t lanes = hn::Lanes(d);
    const auto nothing = hn::Set(d, -std::numeric_limits<float>::infinity());
    auto most = nothing;
    std::size_t i = 0;
    for (; i + lanes <= values.size(); i += lanes) {
        const auto without = LanesOf(d, bits[i / 64], i % 64);
        most = hn::Max(most, hn::IfThenElse(without, nothing, hn::LoadU(d, values.data() + i)));
    }
    HWY_ALIGN float last[16];
    hn::Store(most, d, last);
    float largest = *std::max_element(last, last + lanes);
    for (; i < values.size(); ++i) {
        if ((bits[i / 64] >> (i % 64) & 1U) == 0) largest = std::max(largest, values[i]);
    }
    return largest;
}

void FoldMaxima(const float* HWY_RESTRICT values, std::size_t count, float* HWY_RESTRICT folded,
                std::size_t size) {
    const Floats d;
    const std::size_t lanes = hn::Lanes(d);
    std::size_t i = 0;
    for (; i + lanes <= size; i += lanes) {
        auto most = hn::LoadU(d, values + i);
        std::size_t from = i + size;
        for (; from + lanes <= count; from += size) most = hn::Max(most, hn::LoadU(d, values + from));
        hn::StoreU(most, d, folded + i);
        for (; from < count; ++from) folded[from % size] = std::max(folded[from % size], values[from]);
    }
    for (; i < size; ++i) {
        folded[i] = values[i];
        for (std::size_t from = i + size; from < count; from += size)
            folded[i] = std::max(folded[i], values[from]);
    }
}

// Which of a block's elements reach the floor.
template <class Format>
std::uint64_t ReachedInBlock(const std::byte* HWY_RESTRICT block, float floor) {
    const Floats d;
    const auto bound = hn::Set(d, floor);
    std::uint64_t reached = 0;
    for (std::size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
        reached |= ReachedLanes(Format::widen(block, i), bound) << i;
    }
    return reached;
}

// Which blocks of the run may hold something. They are asked for at once: where the maxima came with the row,
// none of it is near yet.
std::size_t ReachedBlocks(const BlockRun& run, std::size_t bytes, const float* HWY_RESTRICT maxima,
                          float floor, std::uint32_t* HWY_RESTRICT reached) {
    std::size_t count = 0;
    for (std::uint32_t first = 0; first < run.blocks; first += 64) {
        const std::size_t some = std::min<std::size_t>(64, run.blocks - first);
        for (std::uint64_t bits = ReachedBits(maxima + first, some, floor); bits != 0; bits &= bits - 1) {
            const std::uint32_t block = first + static_cast<std::uint32_t>(std::countr_zero(bits));
            PrefetchBlock(run.ahead(block), bytes * kBlock);
            reached[count++] = block;
        }
    }
    return count;
}

// Which of them are at most the ceiling.
template <class Format>
std::uint64_t WithinInBlock(const std::byte* HWY_RESTRICT block, float ceiling) {
    const Floats d;
    const auto bound = hn::Set(d, ceiling);
    std::uint64_t within = 0;
    for (std::size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
        within |= ReachedLanes(bound, Format::widen(block, i)) << i;
    }
    return within;
}

struct FoundRange {
    float floor;
    float ceiling;
};

template <class Format>
Finds FindInRun(const BlockRun& run, const float* HWY_RESTRICT maxima, const FoundRange& range,
                std::uint32_t* HWY_RESTRICT reached, Found* HWY_RESTRICT found) {
    const std::size_t blocks =
        ReachedBlocks(run, sizeof(typename Format::Code), maxima, range.floor, reached);
    std::size_t count = 0;
    for (std::size_t i = 0; i < blocks; ++i) {
        const std::byte* elements = run.block(reached[i]);
        const std::uint32_t first = (run.first_block + reached[i]) * kBlock;
        std::uint64_t bits = ReachedInBlock<Format>(elements, range.floor);
        // Most blocks that reach a range's floor reach beyond it.
        if (maxima[reached[i]] > range.ceiling) bits &= WithinInBlock<Format>(elements, range.ceiling);
        for (; bits != 0; bits &= bits - 1) {
            const auto entry = static_cast<std::uint32_t>(std::countr_zero(bits));
            found[count++] = {first + entry, Format::value(elements, entry)};
        }
    }
    return {count, blocks};
}

template <class Format>
Finds FindInRow(const BlockedRow& row, const float* HWY_RESTRICT block_max, const FoundRange& range,
                std::uint32_t* HWY_RESTRICT reached, Found* HWY_RESTRICT found) {
    Finds all;
    for (const BlockRun& run : row.runs) {
        const Finds some =
            FindInRun<Format>(run, block_max + run.first_block, range, reached, found + all.entries);
        all.entries += some.entries;
        all.blocks += some.blocks;
    }
    return all;
}

Finds FindInRange(const BlockedRow& row, const float* HWY_RESTRICT block_max, float floor, float ceiling,
                  std::uint32_t* HWY_RESTRICT reached, Found* HWY_RESTRICT found) {
    const FoundRange range = {floor, ceiling};
    switch (row.dtype) {
        case proto::Dtype::bf16:
            return FindInRow<Bf16>(row, block_max, range, reached, found);
        case proto::Dtype::fp16:
            return FindInRow<Fp16>(row, block_max, range, reached, found);
        case proto::Dtype::fp32:
            break;
    }
    return FindInRow<Fp32>(row, block_max, range, reached, found);
}

template <class Format>
Finds CountInRow(const BlockedRow& row, std::span<const std::uint32_t> mask,
                 const float* HWY_RESTRICT block_max, float floor, std::uint32_t* HWY_RESTRICT reached) {
    Finds all;
    for (const BlockRun& run : row.runs) {
        const std::size_t blocks =
            ReachedBlocks(run, sizeof(typename Format::Code), block_max + run.first_block, floor, reached);
        for (std::size_t i = 0; i < blocks; ++i) {
            const std::uint64_t found = ReachedInBlock<Format>(run.block(reached[i]), floor);
            const std::uint64_t allowed = allowed_in_block(mask, run.first_block + reached[i]);
            all.entries += static_cast<std::size_t>(std::popcount(found & allowed));
        }
        all.blocks += blocks;
    }
    return all;
}

Finds CountInRowOf(const BlockedRow& row, std::span<const std::uint32_t> mask,
                   const float* HWY_RESTRICT block_max, float floor, std::uint32_t* HWY_RESTRICT reached) {
    switch (row.dtype) {
        case proto::Dtype::bf16:
            return CountInRow<Bf16>(row, mask, block_max, floor, reached);
        case proto::Dtype::fp16:
            return CountInRow<Fp16>(row, mask, block_max, floor, reached);
        case proto::Dtype::fp32:
            break;
    }
    return CountInRow<Fp32>(row, mask, block_max, floor, reached);
}

}  // namespace croupier::sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace croupier::sampler {

HWY_EXPORT(WidenCodes);
HWY_EXPORT(ScanMaxima);
HWY_EXPORT(CountAtLeast);
HWY_EXPORT(CountAtLeastEach);
HWY_EXPORT(NoneInfinite);
HWY_EXPORT(LargestOf);
HWY_EXPORT(LargestWithout);
HWY_EXPORT(FoldMaxima);
HWY_EXPORT(FindInRange);
HWY_EXPORT(CountInRowOf);

Widened widen_codes(proto::Dtype dtype, const void* codes, std::span<float> values) noexcept {
    return HWY_DYNAMIC_DISPATCH(WidenCodes)(dtype, static_cast<const std::byte*>(codes), values.size(),
                                            values.data());
}

RowFault judge_block_maxima(std::span<const float> block_max) noexcept {
    if (HWY_DYNAMIC_DISPATCH(NoneInfinite)(block_max.data(), block_max.size())) return RowFault::none;
    bool infinite = false;
    for (const float maximum : block_max) {
        if (maximum != maximum) return RowFault::nan;
        infinite = infinite || maximum == std::numeric_limits<float>::infinity();
    }
    return infinite ? RowFault::positive_infinity : RowFault::none;
}

RowFault judge_scan(proto::Dtype dtype, std::uint32_t largest_code,
                    std::span<const float> block_max) noexcept {
    // Beyond the code of -inf, unsigned, are the NaNs with a sign.
    if (largest_code > negative_infinity_code(dtype)) return RowFault::nan;
    return judge_block_maxima(block_max);
}

RowFault scan_block_maxima(const BlockedRow& row, std::span<float> block_max) noexcept {
    const std::uint32_t most = HWY_DYNAMIC_DISPATCH(ScanMaxima)(row, block_max.data());
    return judge_scan(row.dtype, most, block_max.first(row.blocks));
}

float largest_of(std::span<const float> values) noexcept {
    return HWY_DYNAMIC_DISPATCH(LargestOf)(values.data(), values.size());
}

float largest_entry(const BlockedRow& row, std::span<const std::uint32_t> mask,
                    std::span<const float> block_max) noexcept {
    return row.lean != nullptr && row.lean->knows_under(mask) ? row.lean->largest : largest_of(block_max);
}

float largest_without(std::span<const float> values, std::span<const std::uint64_t> bits) noexcept {
    return HWY_DYNAMIC_DISPATCH(LargestWithout)(values, bits.data());
}

void fold_maxima(std::span<const float> values, std::span<float> folded) noexcept {
    HWY_DYNAMIC_DISPATCH(FoldMaxima)
    (values.data(), values.size(), folded.data(), folded.size());
}

std::uint32_t count_at_least(std::span<const float> values, float floor) noexcept {
    return static_cast<std::uint32_t>(
        HWY_DYNAMIC_DISPATCH(CountAtLeast)(values.data(), values.size(), floor));
}

void count_at_least_each(std::span<const float> values, std::span<const float> floors,
                         std::span<std::uint32_t> counts) noexcept {
    HWY_DYNAMIC_DISPATCH(CountAtLeastEach)(values.data(), values.size(), floors, counts);
}

std::uint32_t find_in_range(const BlockedRow& row, float floor, float ceiling,
                            Workspace& workspace) noexcept {
    // No element below it is finite: -inf is never found.
    const float least = std::max(floor, std::numeric_limits<float>::lowest());
    if (row.lean != nullptr && row.lean->lists_from(least)) {
        std::uint32_t count = 0;
        row.lean->each_listed(least, workspace.found.size(), [&](std::uint32_t token, float value) {
            workspace.found[count] = {token, value};
            count += value <= ceiling ? 1U : 0U;
        });
        return count;
    }
    const auto finds =
        HWY_DYNAMIC_DISPATCH(FindInRange)(row, workspace.block_max.data(), least, ceiling,
                                          workspace.reached_blocks.data(), workspace.found.data());
    workspace.answer_space.blocks_read += static_cast<std::uint32_t>(finds.blocks);
    return static_cast<std::uint32_t>(finds.entries);
}

std::uint32_t find_at_least(const BlockedRow& row, float floor, Workspace& workspace) noexcept {
    return find_in_range(row, floor, std::numeric_limits<float>::infinity(), workspace);
}

std::uint32_t count_allowed(const BlockedRow& row, std::span<const std::uint32_t> mask, float floor,
                            Workspace& workspace) noexcept {
    const float least = std::max(floor, std::numeric_limits<float>::lowest());
    if (row.lean != nullptr && row.lean->lists_from(least)) {
        std::uint32_t count = 0;
        row.lean->each_listed(least, workspace.found.size(), [&](std::uint32_t token, float) {
            count += mask.empty() || (mask[token / 32] >> (token % 32) & 1U) != 0 ? 1U : 0U;
        });
        return count;
    }
    const auto finds = HWY_DYNAMIC_DISPATCH(CountInRowOf)(row, mask, workspace.block_max.data(), least,
                                                          workspace.reached_blocks.data());
    workspace.answer_space.blocks_read += static_cast<std::uint32_t>(finds.blocks);
    return static_cast<std::uint32_t>(finds.entries);
}

}  // namespace croupier::sampler
#endif  // HWY_ONCE
