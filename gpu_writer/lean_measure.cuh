// The one pass over a lean step's rows: the largest entry of each block, its rank in the race, and what each
// chunk of a row weighs.
#pragma once

#include <algorithm>
#include <cfloat>
#include <cstddef>
#include <cstdint>

#include "gpu_writer/device_only.cuh"
#include "gpu_writer/element_codes.h"
#include "gpu_writer/lanes.cuh"
#include "gpu_writer/lean_kernels.h"
#include "gpu_writer/lean_ranks.cuh"
#include "gpu_writer/lean_rows.cuh"
#include "proto/lean_order.h"

namespace croupier::gpu_writer {

// What one CUDA block measures: few blocks, so that a column is done soon and its bytes cross the link while
// others are still read, and that one thread's loads are all in flight at once.
constexpr std::uint32_t kChunkBlocks = 128;
constexpr std::uint32_t kChunksAMultiprocessor = 5;

constexpr std::uint32_t chunks_of(std::uint32_t blocks) {
    return blocks == 0 ? 1 : (blocks + kChunkBlocks - 1) / kChunkBlocks;
}

// Factors that make powers of two of a column's logits; 0: that sum is not wanted.
struct LeanScales {
    float at_one = 0.0F;
    float at_scale = 0.0F;

    LeanScales() = default;
    __device__ explicit LeanScales(const LeanWant& want) {
        constexpr double kLog2E = 1.4426950408889634;
        if (want.flags.has(Want::sum_at_one)) at_one = static_cast<float>(kLog2E);
        if (!want.flags.has(Want::sum_at_scale)) return;
        // Finite and not 0: its products with 0 and with infinity are numbers.
        at_scale = static_cast<float>(std::clamp(want.scale * kLog2E, double{FLT_MIN}, double{FLT_MAX}));
    }
    __device__ bool any() const { return at_one != 0.0F || at_scale != 0.0F; }
};

// Of a chunk's entries, in units of its largest one's weight. Where that is -inf they are 0, and where it is
// not finite at all nobody reads them.
struct ChunkSums {
    float most;
    float at_one;
    float at_scale;
};

struct Scratch {
    std::uint32_t* sent;     // columns, of a launch; zero between launches
    std::uint32_t* sent_of;  // each part of it; likewise
    std::uint32_t* arrived;  // chunks that are measured, of each column; likewise
    std::uint32_t* floors;   // of each column; likewise
    std::byte* maxima;       // codes
    std::uint32_t maxima_stride;
    std::uint32_t* race;  // ranks, where blocks race
    std::uint32_t race_stride;
    std::uint8_t* weights;  // of blocks, as proto::Sent::weighed_blocks has them; as far apart as the ranks
    LeanWant* wants;        // of more columns than the arguments hold
    ChunkSums* sums;
    LeanSums* of_blocks;  // as far apart as the ranks

    // What must be zero is in front, where it does not move with the step.
    static constexpr std::size_t kCounters =
        (1 + std::size_t{proto::kLeanStamps} + std::size_t{2} * proto::kMaxBatch) * sizeof(std::uint32_t);
    static constexpr std::size_t kMaxima = (kCounters + 63) / 64 * 64;

    Scratch(void* memory, proto::Dtype dtype, std::uint32_t blocks, std::uint32_t columns)
        : sent(static_cast<std::uint32_t*>(memory)),
          sent_of(sent + 1),
          arrived(sent_of + proto::kLeanStamps),
          floors(arrived + proto::kMaxBatch),
          maxima(static_cast<std::byte*>(memory) + kMaxima),
          maxima_stride(chunks_of(blocks) * kChunkBlocks * proto::element_bytes(dtype)),
          race(reinterpret_cast<std::uint32_t*>(maxima + std::size_t{columns} * maxima_stride)),
          race_stride(chunks_of(blocks) * kChunkBlocks),
          weights(reinterpret_cast<std::uint8_t*>(race + std::size_t{columns} * race_stride)),
          wants(reinterpret_cast<LeanWant*>(weights + std::size_t{columns} * race_stride)),
          sums(reinterpret_cast<ChunkSums*>(wants + columns)),
          of_blocks(reinterpret_cast<LeanSums*>(sums + std::size_t{columns} * chunks_of(blocks))) {}

    static std::size_t bytes(proto::Dtype dtype, std::uint32_t blocks, std::uint32_t columns) {
        const std::size_t of_block =
            proto::element_bytes(dtype) + sizeof(std::uint32_t) + sizeof(std::uint8_t) + sizeof(LeanSums);
        const std::size_t of_chunk = kChunkBlocks * of_block + sizeof(ChunkSums);
        return kMaxima + columns * (chunks_of(blocks) * of_chunk + sizeof(LeanWant));
    }
};

template <proto::Dtype D>
__device__ float weight(const Unit<D>& unit, float most, float scale) {
    float sum = 0.0F;
#pragma unroll
    for (std::uint32_t i = 0; i < Unit<D>::kElements; ++i) {
        sum += power_of_two((value_of<D>(unit.codes[i]) - most) * scale);
    }
    return sum;
}

template <proto::Dtype D>
__device__ typename Element<D>::Code code_of(float value) {
    using Code = typename Element<D>::Code;
    if (isnan(value)) return static_cast<Code>(quiet_nan(D));
    if constexpr (D == proto::Dtype::bf16) return static_cast<Code>(__float_as_uint(value) >> 16U);
    if constexpr (D == proto::Dtype::fp16) return __half_as_ushort(__float2half_rn(value));
    if constexpr (D == proto::Dtype::fp32) return __float_as_uint(value);
}

// From `place` on, each thread's units; all loads are under way before one is waited for.
template <proto::Dtype D, std::uint32_t kUnits>
__device__ void load_chunk(const RowReader<D>& reader, std::uint32_t column, std::uint32_t place,
                           Unit<D> (&units)[kUnits]) {
    constexpr std::uint32_t kElements = Unit<D>::kElements;
    constexpr std::uint32_t kEntries = kUnits * kLeanThreads * kElements;
    const std::uint32_t first = reader.entry_at(place);
    if (reader.whole && first < reader.rows.entries && reader.rows.entries - first >= kEntries) {
        const auto* from = reinterpret_cast<const uint4*>(reader.row(column) + first) + threadIdx.x;
#pragma unroll
        for (std::uint32_t i = 0; i < kUnits; ++i) {
            *reinterpret_cast<uint4*>(units[i].codes) = __ldg(from + i * kLeanThreads);
        }
        return;
    }
    // At the ends of the row, or of rows that are not aligned.
#pragma unroll
    for (std::uint32_t i = 0; i < kUnits; ++i) {
        units[i] = reader.unit(column, place + (i * kLeanThreads + threadIdx.x) * kElements);
    }
}

__device__ inline float warp_sum(float value) {
    return joined<32>(value, [](float a, float b) { return a + b; });
}

// By one warp, of `count` parts that each have a largest entry and sums in its units: the whole's.
template <typename Part>
__device__ ChunkSums join_sums(const LeanScales& scales, std::uint32_t count, Part part) {
    const std::uint32_t lane = threadIdx.x % 32;
    // Read once: of a row there are seldom more than lanes.
    const ChunkSums first = lane < count ? part(lane) : ChunkSums{-FLT_MAX, 0.0F, 0.0F};
    float most = larger(-FLT_MAX, first.most);
    for (std::uint32_t i = lane + 32; i < count; i += 32) most = larger(most, part(i).most);
    most = joined<32>(most, larger);
    ChunkSums sums{most, 0.0F, 0.0F};
    const auto add = [&](const ChunkSums& each) {
        // Of nothing but -inf, whose differences are no numbers.
        if (!(each.most >= -FLT_MAX)) return;
        sums.at_one += each.at_one * power_of_two((each.most - most) * scales.at_one);
        sums.at_scale += each.at_scale * power_of_two((each.most - most) * scales.at_scale);
    };
    add(first);
    for (std::uint32_t i = lane + 32; i < count; i += 32) add(part(i));
    return {most, warp_sum(sums.at_one), warp_sum(sums.at_scale)};
}

// When each thread's block of the chunk begins to race, as the race takes it.
__device__ inline float ln_first_arrival(const LeanWant& want, std::uint32_t first_block) {
    namespace race = proto::race;
    const std::uint32_t block = first_block + blockIdx.x * kChunkBlocks + threadIdx.x;
    return race::ln(race::first_arrival(word_of_block(want.key, race::kBlockStream, block)));
}

template <proto::Dtype D>
struct MeasuredChunk {
    alignas(16) typename Element<D>::Code maxima[kChunkBlocks];
    ChunkSums sums[kChunkBlocks];
};

// Of a chunk that is measured already. Blocks behind the last entry, ids beyond the vocabulary, have nothing
// there.
template <proto::Dtype D>
__device__ void take_chunk(std::uint32_t column, bool sums, const LeanRows& rows, const Scratch& scratch,
                           MeasuredChunk<D>& chunk) {
    using Code = typename Element<D>::Code;
    if (threadIdx.x >= kChunkBlocks) return;
    const std::uint32_t block = blockIdx.x * kChunkBlocks + threadIdx.x;
    const std::uint32_t end = (rows.lead + rows.entries + proto::kBlockIds - 1) / proto::kBlockIds;
    const auto* maxima =
        reinterpret_cast<const Code*>(scratch.maxima + std::uint64_t{column} * scratch.maxima_stride);
    const Code code = block < end ? maxima[block] : static_cast<Code>(minus_infinity(D));
    chunk.maxima[threadIdx.x] = code;
    if (!sums) return;
    LeanSums own;
    if (block < end) own = scratch.of_blocks[std::uint64_t{column} * scratch.race_stride + block];
    chunk.sums[threadIdx.x] = ChunkSums{value_of<D>(code), own.at_one, own.at_scale};
}

// The same from the chunk's entries. While they are on their way, meanwhile().
template <proto::Dtype D, typename Meanwhile>
__device__ void read_chunk(const RowReader<D>& reader, std::uint32_t column, const LeanScales& scales,
                           const ColumnMask& mask, MeasuredChunk<D>& chunk, Meanwhile meanwhile) {
    constexpr std::uint32_t kUnits = kChunkBlocks * kBlockUnits<D> / kLeanThreads;
    const bool sums = scales.any();
    const auto block_of = [](std::uint32_t i) { return (i * kLeanThreads + threadIdx.x) / kBlockUnits<D>; };
    Unit<D> units[kUnits];
    load_chunk(reader, column, blockIdx.x * kChunkBlocks * proto::kBlockIds, units);
    std::uint32_t allowed[kUnits];
    if (mask.hides()) {
#pragma unroll
        for (std::uint32_t i = 0; i < kUnits; ++i) {
            const std::uint32_t block = blockIdx.x * kChunkBlocks + block_of(i);
            allowed[i] = mask.of_unit<D>(block, threadIdx.x % kBlockUnits<D>);
        }
    }
    meanwhile();
#pragma unroll
    for (std::uint32_t i = 0; i < kUnits; ++i) {
        const auto sum = [](float a, float b) { return a + b; };
        const std::uint32_t block = block_of(i);
        const bool writes = threadIdx.x % kBlockUnits<D> == 0;
        if (mask.hides()) hide_masked(units[i], allowed[i]);
        const float most = joined<kBlockUnits<D>>(units[i].largest(), larger);
        // One zero: which of two a maximum is depends on their order.
        if (writes) chunk.maxima[block] = code_of<D>(most + 0.0F);
        if (!sums) continue;
        ChunkSums own{most, 0.0F, 0.0F};
        if (scales.at_one != 0.0F) {
            own.at_one = joined<kBlockUnits<D>>(weight(units[i], most, scales.at_one), sum);
        }
        if (scales.at_scale != 0.0F) {
            own.at_scale = joined<kBlockUnits<D>>(weight(units[i], most, scales.at_scale), sum);
        }
        if (writes) chunk.sums[block] = own;
    }
}

// Into scratch memory: the maxima of the chunk's blocks, their ranks in the race if the column's blocks race,
// what each of them weighs if that is sent, and what the chunk weighs where the column wants sums.
template <proto::Dtype D>
__device__ void measure_chunk(const RowReader<D>& reader, std::uint32_t column, const LeanWant& want,
                              const ColumnPlan& plan, const ColumnMask& mask, const LeanRows& rows,
                              const Scratch& scratch) {
    __shared__ MeasuredChunk<D> chunk;
    const LeanScales scales(want);
    const bool sums = scales.any();
    const bool has_racer = plan.races && threadIdx.x < kChunkBlocks;
    float ln_first = 0.0F;
    const auto begin_race = [&] {
        if (has_racer) ln_first = ln_first_arrival(want, rows.first_block);
    };
    if (rows.has_maxima && !mask.hides() && (rows.has_sums || !sums)) {
        take_chunk<D>(column, sums, rows, scratch, chunk);
        begin_race();
    } else {
        read_chunk<D>(reader, column, scales, mask, chunk, begin_race);
    }
    __syncthreads();
    const std::uint64_t of_chunk = std::uint64_t{column} * scratch.race_stride + blockIdx.x * kChunkBlocks;
    if (sums && threadIdx.x / 32 == kLeanWarps - 1) {
        const ChunkSums all = join_sums(scales, kChunkBlocks, [&](std::uint32_t i) { return chunk.sums[i]; });
        if (threadIdx.x % 32 == 0) scratch.sums[std::uint64_t{column} * gridDim.x + blockIdx.x] = all;
    }
    if (plan.weighs && threadIdx.x < kChunkBlocks) {
        scratch.weights[of_chunk + threadIdx.x] = code_of_weight(log2f(chunk.sums[threadIdx.x].at_scale));
    }
    if (has_racer) {
        const std::uint32_t rank = rank_of(value_of<D>(chunk.maxima[threadIdx.x]));
        scratch.race[of_chunk + threadIdx.x] = race_rank(rank, want.temperature, ln_first);
    }
    constexpr std::uint32_t kStores = sizeof(chunk.maxima) / 16;
    if (threadIdx.x >= kStores) return;
    auto* to = reinterpret_cast<uint4*>(scratch.maxima + std::uint64_t{column} * scratch.maxima_stride);
    to[blockIdx.x * kStores + threadIdx.x] = reinterpret_cast<const uint4*>(chunk.maxima)[threadIdx.x];
}

}  // namespace croupier::gpu_writer
