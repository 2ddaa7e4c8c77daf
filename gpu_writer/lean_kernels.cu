// Compiled with the race's flags (CMakeLists.txt): the blocks' bounds are the host's bit for bit.
#include <algorithm>
#include <cfloat>

#include "gpu_writer/device_words.cuh"
#include "gpu_writer/element_codes.h"
#include "gpu_writer/lean_draw.cuh"
#include "gpu_writer/lean_kernels.h"
#include "gpu_writer/lean_measure.cuh"
#include "gpu_writer/lean_ranks.cuh"
#include "gpu_writer/lean_rows.cuh"
#include "proto/lean_order.h"

namespace croupier::gpu_writer {
namespace {

using proto::Dtype;

struct ScaleTable {
    LeanScales each[kMostSummed];
    std::uint32_t columns;  // with a sum

    __device__ LeanScales of(std::uint32_t column) const {
        return column < columns ? each[column] : LeanScales{};
    }
};

// What a column wants, in shared memory. Host memory is read only where it must be, and once: each read is a
// round trip over the link.
struct FetchedWant {
    static constexpr std::uint32_t kParts = sizeof(LeanWant) / 16;
    alignas(LeanWant) uint4 parts[kParts];

    __device__ static uint4 load(const LeanWant* want) {
        return threadIdx.x < kParts ? __ldcv(reinterpret_cast<const uint4*>(want) + threadIdx.x) : uint4{};
    }
    // All threads see it behind the next barrier.
    __device__ void keep(const uint4& part) {
        if (threadIdx.x < kParts) parts[threadIdx.x] = part;
    }
    __device__ const LeanWant& get() const { return *reinterpret_cast<const LeanWant*>(parts); }
};

// Whether all other chunks of the column are measured: the CUDA block that is told so sends it.
__device__ bool arrives_last(std::uint32_t* arrived) {
    __shared__ bool last;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicAdd(arrived, 1U) + 1 == gridDim.x;
        if (last) store_now(arrived, 0U);
        __threadfence();
    }
    __syncthreads();
    return last;
}

// Copies the column's maxima to where they go, and ranks its blocks by them.
template <Dtype D>
__device__ void send_maxima(const LeanTarget& target, std::uint32_t column, const Scratch& scratch,
                            const BlockRanks& ranks) {
    constexpr std::uint32_t kElements = Unit<D>::kElements;
    const auto* from =
        reinterpret_cast<const uint4*>(scratch.maxima + std::uint64_t{column} * scratch.maxima_stride);
    auto* to =
        reinterpret_cast<uint4*>(target.part + target.layout.maxima + column * target.layout.maxima_stride);
    for (std::uint32_t i = threadIdx.x; i * kElements < ranks.blocks; i += kLeanThreads) {
        const uint4 codes = __ldcg(from + i);
        to[i] = codes;
        Unit<D> unit;
        *reinterpret_cast<uint4*>(unit.codes) = codes;
#pragma unroll
        for (std::uint32_t k = 0; k < kElements; ++k) {
            const std::uint32_t block = i * kElements + k;
            if (block < ranks.blocks) ranks.of[0][block] = rank_of(value_of<D>(unit.codes[k]));
        }
    }
}

template <Dtype D>
__device__ void send_blocks(const RowReader<D>& reader, const LeanTarget& target, std::uint32_t column,
                            const ChoiceRoom& room) {
    constexpr std::uint32_t kListed = 16 / sizeof(std::uint16_t);
    auto* list =
        reinterpret_cast<uint4*>(target.part + target.layout.blocks + column * target.layout.blocks_stride);
    for (std::uint32_t i = threadIdx.x; i * kListed < room.sent; i += kLeanThreads) {
        list[i] = reinterpret_cast<const uint4*>(room.list)[i];
    }
    void* elements = reinterpret_cast<void*>(target.part + target.layout.elements +
                                             column * target.layout.elements_stride);
    copy_blocks<D, kLeanThreads>(
        reader, column, room.sent, [&](std::uint32_t i) { return std::uint32_t{room.list[i]}; },
        [&](std::uint32_t i, std::uint32_t within, const Unit<D>& unit) {
            unit.store(elements, std::uint64_t{i} * kBlockUnits<D> + within);
        });
}

// Joins the chunks' sums, by one warp; both are 0 where the largest entry is not finite.
__device__ void sum_row(const LeanScales& scales, const ChunkSums* of_chunks, proto::LeanHead& head) {
    const ChunkSums all = join_sums(scales, gridDim.x, [&](std::uint32_t i) {
        return ChunkSums{__ldcg(&of_chunks[i].most), __ldcg(&of_chunks[i].at_one),
                         __ldcg(&of_chunks[i].at_scale)};
    });
    // Not above -FLT_MAX: all is -inf, or there is a NaN.
    if (!(all.most > -FLT_MAX && all.most <= FLT_MAX)) return;
    if (scales.at_one != 0.0F) head.weight = all.at_one;
    if (scales.at_scale != 0.0F) head.weight_at_scale = all.at_scale;
}

// The winner, where the column is drawn, or what a sampler needs to draw.
template <Dtype D>
__device__ void draw_or_send(const RowReader<D>& reader, const LeanRows& rows, const LeanTarget& target,
                             std::uint32_t column, const LeanWant& want, const BlockRanks& ranks,
                             ChoiceRoom& room, Contender& winner) {
    const bool draws = (want.flags & kDraw) != 0;
    if (ranks.ways > 1 || (draws && want.temperature > 0.0F)) rank_by_race(want, rows.first_block, ranks);
    __syncthreads();
    if (draws && can_be_drawn(ranks)) {
        draw_token(reader, column, want, rows.first_block, ranks, winner);
        return;
    }
    choose_blocks(ranks, {rows.lead, rows.entries, rows.blocks}, room);
    send_blocks(reader, target, column, room);
}

template <Dtype D>
__device__ void send_column(const RowReader<D>& reader, const LeanRows& rows, const LeanTarget& target,
                            std::uint32_t column, const LeanWant* wants, const LeanScales& scales,
                            const Scratch& scratch) {
    __shared__ FetchedWant fetched;
    extern __shared__ std::uint32_t rank_memory[];
    __shared__ ChoiceRoom room;
    __shared__ Contender winner;  // 0: the column is not drawn
    const BlockSpan span{rows.lead, rows.entries, rows.blocks};
    BlockRanks ranks(rank_memory, rows.blocks);
    // It is on its way while the maxima are sent.
    const uint4 part = FetchedWant::load(wants + column);
    send_maxima<D>(target, column, scratch, ranks);
    fetched.keep(part);
    __syncthreads();
    const LeanWant& want = fetched.get();
    const LeanShares shares = shares_of(want, span, target.room);
    ranks.ways = shares.by_race > 0 ? 2 : 1;
    if (threadIdx.x == 0) {
        room.sent = 0;
        winner = 0;
        room.choices[0].seek(shares.by_maximum);
        room.choices[1].seek(shares.by_race);
    }
    __syncthreads();
    const bool whole = (want.flags & kWhole) != 0;
    if (!whole) draw_or_send(reader, rows, target, column, want, ranks, room, winner);
    const bool drawn = winner > 0;
    if (threadIdx.x >= 32) return;
    proto::LeanHead head{};
    head.flags = whole ? proto::kStandsWhole : drawn ? proto::kDrawn : 0;
    if (drawn) head.draw = {want.key, want.temperature, token_of(winner), score_of(winner), 0};
    head.sent = room.sent;
    head.scale = want.scale;
    sum_row(scales, scratch.sums + std::uint64_t{column} * gridDim.x, head);
    if (threadIdx.x != 0) return;
    auto* heads = reinterpret_cast<proto::LeanHead*>(target.part + target.layout.heads);
    heads[column] = head;
}

// By each CUDA block that has sent its column: the last one of a part of the step says that the part is
// there, and the last one of all that the step is.
__device__ void finish_column(const LeanEnd& end, const proto::LeanOrder& order, std::uint32_t place,
                              const Scratch& scratch) {
    __syncthreads();
    if (threadIdx.x != 0) return;
    // Who sees this column counted sees its bytes, on the CPU too.
    __threadfence_system();
    const std::uint32_t part = order.part_at(place);
    if (part + 1 < order.parts() && atomicAdd(scratch.sent_of + part, 1U) + 1 == order.size_of(part)) {
        store_now(scratch.sent_of + part, 0U);
        // The part's other columns come before the stamp.
        __threadfence_system();
        store_now(reinterpret_cast<std::uint64_t*>(end.stamps) + part, end.word);
    }
    if (atomicAdd(scratch.sent, 1U) + 1 != gridDim.y) return;
    store_now(scratch.sent, 0U);
    // The other columns' bytes come before the word.
    __threadfence_system();
    if (end.next != nullptr) store_now(end.next, end.ticket);
    store_now(reinterpret_cast<std::uint64_t*>(end.ready), end.word);
    __threadfence_system();
    store_now(reinterpret_cast<std::uint64_t*>(end.finished), end.ticket);
}

template <Dtype D>
__global__ void __launch_bounds__(kLeanThreads, kChunksAMultiprocessor)
    send_lean(LeanRows rows, LeanTarget target, const LeanWant* wants,
              const __grid_constant__ ScaleTable table, LeanEnd end, Scratch scratch,
              proto::LeanOrder order) {
    const SliceRows in_order = rows_in_order(rows);
    const RowReader<D> reader(in_order);
    const std::uint32_t column = order.column_at(blockIdx.y);
    const LeanScales scales = table.of(column);
    measure_chunk<D>(reader, column, scales, scratch);
    if (!arrives_last(scratch.arrived + column)) return;
    send_column<D>(reader, rows, target, column, wants, scales, scratch);
    finish_column(end, order, blockIdx.y, scratch);
}

template <Dtype D>
struct Send {
    static void launch(const LeanRows& rows, const LeanTarget& target, const LeanStep& step,
                       const LeanEnd& end, const Scratch& scratch, cudaStream_t stream) {
        const std::size_t shared = rank_bytes(rows.blocks);
        // What every GPU has unasked; more is asked for, and the launch below fails where it is not there.
        constexpr std::size_t kUnasked = std::size_t{40} * 1024;
        if (shared > kUnasked) {
            (void)cudaFuncSetAttribute(send_lean<D>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       static_cast<int>(shared));
        }
        ScaleTable table;
        table.columns = static_cast<std::uint32_t>(std::min<std::size_t>(step.scales.size(), kMostSummed));
        std::copy_n(step.scales.begin(), table.columns, table.each);
        send_lean<D><<<dim3(chunks_of(rows.blocks), step.columns), kLeanThreads, shared, stream>>>(
            rows, target, step.wants, table, end, scratch, proto::LeanOrder(step.columns));
    }
};

template <Dtype D>
struct Loading {
    static void launch(cudaError_t* status) {
        cudaFuncAttributes attributes;
        *status = cudaFuncGetAttributes(&attributes, send_lean<D>);
    }
};

}  // namespace

cudaError_t load_lean_kernels(Dtype dtype) {
    cudaError_t status = cudaSuccess;
    launch_of<Loading>(dtype, &status);
    return status;
}

LeanScales lean_scales(const LeanWant& want) {
    constexpr double kLog2E = 1.4426950408889634;
    LeanScales scales;
    if ((want.flags & kSumAtOne) != 0) scales.at_one = static_cast<float>(kLog2E);
    if ((want.flags & kSumAtScale) == 0) return scales;
    // Finite and not 0: its products with 0 and with infinity are numbers.
    scales.at_scale = static_cast<float>(std::clamp(want.scale * kLog2E, double{FLT_MIN}, double{FLT_MAX}));
    return scales;
}

std::size_t lean_scratch_bytes(Dtype dtype, std::uint32_t blocks, std::uint32_t max_batch) {
    const std::size_t codes = std::size_t{chunks_of(blocks)} * kChunkBlocks * proto::element_bytes(dtype);
    return Scratch::kMaxima + max_batch * (codes + chunks_of(blocks) * sizeof(ChunkSums));
}

cudaError_t launch_lean(const LeanRows& rows, const LeanTarget& target, const LeanStep& step,
                        const LeanEnd& end, void* scratch, cudaStream_t stream) {
    launch_of<Send>(rows.dtype, rows, target, step, end,
                    Scratch(scratch, rows.dtype, rows.blocks, step.columns), stream);
    return cudaGetLastError();
}

}  // namespace croupier::gpu_writer
