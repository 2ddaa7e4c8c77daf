// Multiplies hidden states by the head's rows, and leaves of each column's blocks of 64 logits what a lean
// step needs of them. An accumulator takes its products in the order of the elements, by the same
// instructions for every tile and batch: a logit depends on its row and its column alone.
#pragma once

#include "gpu_writer/head_values.cuh"

namespace croupier::gpu_writer::head {

// The shape of a CUDA block's tile: one warpgroup copies, the others multiply, some blocks of 64 rows each.
template <std::uint32_t kTileColumns, std::uint32_t kTileBlocks, std::uint32_t kTileStages>
struct Tile {
    static constexpr std::uint32_t kColumns = kTileColumns;
    static constexpr std::uint32_t kBlocks = kTileBlocks;
    static constexpr std::uint32_t kStages = kTileStages;

    static constexpr std::uint32_t kWarpgroups = 2;
    static constexpr std::uint32_t kRows = kWarpgroups * kBlocks * kBlockRows;
    static constexpr std::uint32_t kThreads = (kWarpgroups + 1) * kWarpgroup;
    static constexpr std::uint32_t kHeadBytes = kRows * kRowBytes;
    static constexpr std::uint32_t kHiddenBytes = kColumns * kRowBytes;
    static constexpr std::uint32_t kStageBytes = kHeadBytes + kHiddenBytes;
    static constexpr std::uint32_t kRoomBytes = kWarpgroups * sizeof(BlockRoom<kColumns>);
    static constexpr std::uint32_t kWantBytes = kColumns * sizeof(ColumnWant);
    static constexpr std::uint32_t kAlignment = 1024;
    static constexpr std::uint32_t kSharedBytes =
        kAlignment + kStages * kStageBytes + kRoomBytes + kWantBytes + kStages * 2 * sizeof(std::uint64_t);
    static constexpr std::uint32_t kMostShared = 227 * 1024;
    static_assert(kSharedBytes <= kMostShared, "a multiprocessor has no more shared memory");
    // Floors are those of one block.
    static constexpr bool kKnowsWants = kBlocks == 1;
};

struct HeadWork {
    std::uint32_t steps;    // along the hidden states, of kStepElements
    std::uint32_t entries;  // the rank's rows of the head
    std::uint32_t columns;  // of the batch
    std::uint32_t row_tiles;
    std::uint32_t column_tiles;  // next to one another, so that the rows come from the L2 cache again
    std::uint32_t lead;
    std::uint32_t first_block;  // the rank's, of the vocabulary
    const LeanWant* wants;
    BlockTargets targets;
    std::uint16_t* logits;
    const std::uint32_t* found_columns;

    __device__ bool is_empty() const { return found_columns != nullptr && *found_columns == 0; }
};

struct Ring {
    std::uint32_t stage = 0;
    std::uint32_t parity = 0;

    template <std::uint32_t kStages>
    __device__ void advance() {
        if (++stage < kStages) return;
        stage = 0;
        parity ^= 1U;
    }
};

template <class T>
struct SharedTile {
    std::uint32_t stages;
    BlockRoom<T::kColumns>* rooms;  // of each warpgroup
    ColumnWant* wants;              // of the tile's columns
    std::uint32_t barriers;

    __device__ explicit SharedTile(std::uint8_t* memory) {
        const std::uint32_t base = shared_address(memory);
        const std::uint32_t skipped = (T::kAlignment - base % T::kAlignment) % T::kAlignment;
        stages = base + skipped;
        std::uint8_t* const behind = memory + skipped + T::kStages * T::kStageBytes;
        rooms = reinterpret_cast<BlockRoom<T::kColumns>*>(behind);
        wants = reinterpret_cast<ColumnWant*>(behind + T::kRoomBytes);
        barriers = stages + T::kStages * T::kStageBytes + T::kRoomBytes + T::kWantBytes;
    }
    __device__ std::uint32_t head(std::uint32_t stage) const { return stages + stage * T::kStageBytes; }
    __device__ std::uint32_t hidden(std::uint32_t stage) const { return head(stage) + T::kHeadBytes; }
    __device__ std::uint32_t full(std::uint32_t stage) const { return barriers + stage * 8; }
    __device__ std::uint32_t empty(std::uint32_t stage) const { return barriers + (T::kStages + stage) * 8; }
};

// The tiles of one CUDA block.
template <class T>
struct TileWalk {
    std::uint32_t item = blockIdx.x;

    __device__ bool is_at_end(const HeadWork& work) const {
        return item >= work.row_tiles * work.column_tiles;
    }
    __device__ void advance() { item += gridDim.x; }
    __device__ std::uint32_t first_row(const HeadWork& work) const {
        return item / work.column_tiles * T::kRows;
    }
    __device__ std::uint32_t first_column(const HeadWork& work) const {
        return item % work.column_tiles * T::kColumns;
    }
};

template <class T>
__device__ void copy_tiles(const SharedTile<T>& shared, const CUtensorMap& head, const CUtensorMap& hidden,
                           const HeadWork& work) {
    Ring ring;
    for (TileWalk<T> walk; !walk.is_at_end(work); walk.advance()) {
        const auto row = static_cast<std::int32_t>(walk.first_row(work) - work.lead);
        const auto column = static_cast<std::int32_t>(walk.first_column(work));
        for (std::uint32_t step = 0; step < work.steps; ++step) {
            const auto element = static_cast<std::int32_t>(step * kStepElements);
            const std::uint32_t full = shared.full(ring.stage);
            wait(shared.empty(ring.stage), ring.parity ^ 1U);
            expect_bytes(full, T::kStageBytes);
            copy_box(shared.head(ring.stage), head, element, row, full, CachePolicy::evict_first);
            copy_box(shared.hidden(ring.stage), hidden, element, column, full, CachePolicy::evict_last);
            ring.template advance<T::kStages>();
        }
    }
}

// A warp has read a stage: the copy engine may write there.
template <class T>
__device__ void release(const SharedTile<T>& shared, std::uint32_t stage) {
    if (threadIdx.x % 32 == 0) arrive(shared.empty(stage));
}

// While the first products are made, with_first(), and with_last() while the last ones are.
template <Dtype D, class T, typename WithFirst, typename WithLast>
__device__ void multiply_tile(const SharedTile<T>& shared, std::uint32_t steps, Ring& ring,
                              float (&sums)[T::kBlocks][T::kColumns / 2], WithFirst with_first,
                              WithLast with_last) {
    const std::uint32_t own_rows = threadIdx.x / kWarpgroup * T::kBlocks * kBlockRows * kRowBytes;
    std::uint32_t before = 0;
#pragma unroll
    for (std::uint32_t i = 0; i < T::kBlocks; ++i) hold(sums[i]);
    for (std::uint32_t step = 0; step < steps; ++step) {
        wait(shared.full(ring.stage), ring.parity);
        const std::uint64_t head = matrix_at(shared.head(ring.stage) + own_rows);
        const std::uint64_t hidden = matrix_at(shared.hidden(ring.stage));
        begin_multiplying();
#pragma unroll
        for (std::uint32_t i = 0; i < kInstructions; ++i) {
#pragma unroll
            for (std::uint32_t block = 0; block < T::kBlocks; ++block) {
                constexpr std::uint32_t kBlockUnits = kBlockRows * kRowBytes / 16;
                multiply<D, T::kColumns>(sums[block], head + block * kBlockUnits + i * kDepthUnits,
                                         hidden + i * kDepthUnits, step + i);
            }
        }
        end_multiply_group();
        if (step == 0) with_first();
        // The step before is read; this one goes on.
        wait_for_products<1>();
        if (step > 0) release<T>(shared, before);
        before = ring.stage;
        ring.template advance<T::kStages>();
    }
    with_last();
    wait_for_products<0>();
    release<T>(shared, before);
#pragma unroll
    for (std::uint32_t i = 0; i < T::kBlocks; ++i) hold(sums[i]);
}

// By the threads that multiply, of a tile's columns.
template <class T>
__device__ void read_wants(const SharedTile<T>& shared, const HeadWork& work, std::uint32_t first_column) {
    constexpr std::uint32_t kThreads = T::kWarpgroups * kWarpgroup;
    constexpr std::uint32_t kBarrier = 1 + T::kWarpgroups;  // the warpgroups' own come first
    synchronize_threads(kBarrier, kThreads);
    for (std::uint32_t own = threadIdx.x; own < T::kColumns; own += kThreads) {
        const std::uint32_t column = first_column + own;
        const bool is_known = T::kKnowsWants && work.wants != nullptr && column < work.columns;
        shared.wants[own] =
            is_known ? ColumnWant(work.wants[column], work.targets.floors != nullptr) : ColumnWant();
    }
    synchronize_threads(kBarrier, kThreads);
}

template <Dtype D, class T>
__device__ void multiply_tiles(const SharedTile<T>& shared, const HeadWork& work) {
    constexpr std::uint32_t kNoColumn = 0xFFFFFFFF;
    const std::uint32_t warpgroup = threadIdx.x / kWarpgroup;
    const std::uint32_t end = work.lead + work.entries;
    BlockSinks<D, T::kColumns> sinks(work.targets, work.logits, shared.wants, shared.rooms[warpgroup],
                                     1 + warpgroup);
    std::uint32_t known = kNoColumn;  // the first of the columns whose wants are
    Ring ring;
    for (TileWalk<T> walk; !walk.is_at_end(work); walk.advance()) {
        const std::uint32_t first_row = walk.first_row(work) + warpgroup * T::kBlocks * kBlockRows;
        const auto place_of = [&](std::uint32_t number) {
            const std::uint32_t row = first_row + number * kBlockRows;
            return BlockPlace{row / kBlockRows,
                              row == 0 ? work.lead : 0,
                              min(end - row, kBlockRows),
                              walk.first_column(work),
                              work.columns,
                              work.first_block};
        };
        if (known != walk.first_column(work)) {
            known = walk.first_column(work);
            read_wants<T>(shared, work, known);
            sinks.forget();
        }
        float sums[T::kBlocks][T::kColumns / 2];
        multiply_tile<D, T>(
            shared, work.steps, ring, sums, [&] { sinks.begin(place_of(0)); },
            [&] { sinks.fetch_floors(place_of(0)); });
#pragma unroll
        for (std::uint32_t i = 0; i < T::kBlocks; ++i) {
            // The last tile may have fewer rows.
            if (first_row + i * kBlockRows < end) sinks.leave(sums[i], place_of(i));
        }
    }
}

template <Dtype D, class T>
__global__ void __launch_bounds__(T::kThreads, 1)
    fused_head(const __grid_constant__ CUtensorMap head, const __grid_constant__ CUtensorMap hidden,
               const __grid_constant__ HeadWork work) {
    extern __shared__ std::uint8_t memory[];
    let_next_kernel_begin();
    if (work.is_empty()) return;
    const SharedTile<T> shared(memory);
    if (threadIdx.x == 0) {
        for (std::uint32_t i = 0; i < T::kStages; ++i) {
            init_barrier(shared.full(i), 1);
            init_barrier(shared.empty(i), T::kWarpgroups * kWarps);
        }
        publish_barriers();
    }
    __syncthreads();
    // Large tiles need more registers than all threads can have alike.
    constexpr bool kMovesRegisters = T::kBlocks * T::kColumns >= 256;
    if (threadIdx.x / kWarpgroup == T::kWarpgroups) {
        if constexpr (kMovesRegisters) give_registers<40>();
        if (threadIdx.x % kWarpgroup == 0) copy_tiles<T>(shared, head, hidden, work);
    } else {
        if constexpr (kMovesRegisters) take_registers<232>();
        multiply_tiles<D, T>(shared, work);
    }
}

}  // namespace croupier::gpu_writer::head
