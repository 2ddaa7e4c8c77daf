#include <algorithm>

#include "gpu_writer/device_words.cuh"
#include "gpu_writer/row_inputs.cuh"
#include "gpu_writer/slice_kernels.h"
#include "gpu_writer/slice_tiles.cuh"
#include "proto/logits_slot.h"
#include "proto/philox.h"

namespace croupier::gpu_writer {
namespace {

using proto::Dtype;

// A block's piece is long beside the fence that ends it, and short beside the patience of who waits for the
// first tiles.
constexpr std::uint64_t kLeastPiece = std::uint64_t{8} * 1024;
constexpr std::uint64_t kMostPiece = std::uint64_t{64} * 1024;
constexpr std::uint64_t kPiecesABlock = 4;

struct Pieces {
    std::uint32_t tiles_each;
    std::uint32_t count;
};

__host__ __device__ std::uint32_t granule_of(std::uint64_t tile_row_bytes) {
    std::uint32_t granule = 1;
    while (granule * tile_row_bytes % 16 != 0) granule *= 2;
    return granule;
}

__host__ __device__ Pieces cut(std::uint32_t tiles, std::uint64_t tile_row_bytes, std::uint32_t blocks) {
    std::uint64_t bytes = tiles * tile_row_bytes / (blocks * kPiecesABlock);
    bytes = bytes < kLeastPiece ? kLeastPiece : bytes > kMostPiece ? kMostPiece : bytes;
    const std::uint32_t granule = granule_of(tile_row_bytes);
    const auto wanted = static_cast<std::uint32_t>(bytes / tile_row_bytes);
    const std::uint32_t each = (wanted + granule - (wanted > 0 ? 1 : 0)) / granule * granule;
    return {each, (tiles + each - 1) / each};
}

__device__ std::uint64_t tile_row_bytes(const SliceRows& rows, std::uint32_t columns) {
    return std::uint64_t{columns} * rows.tile * proto::element_bytes(rows.dtype);
}

// The record of this launch, in every thread's sight; false when no step was begun for it. Host memory is
// read once a block: each read is a round trip over the link.
__device__ bool fetch_record(const LaunchRing& ring, LaunchRecord& record) {
    constexpr std::uint32_t kWords = sizeof(LaunchRecord) / sizeof(std::uint64_t);
    const std::uint64_t next = load_now(&ring.counters->next);
    if (threadIdx.x < kWords) {
        const auto* from = reinterpret_cast<const std::uint64_t*>(ring.records + (next + 1) % ring.places);
        reinterpret_cast<std::uint64_t*>(&record)[threadIdx.x] = load_now(from + threadIdx.x);
    }
    __syncthreads();
    return record.ticket == next + 1;
}

// By one thread, when all of the block's stores to the piece are made.
__device__ void land(const LaunchRing& ring, const LaunchRecord& record, const Pieces& pieces,
                     std::uint32_t tiles, std::uint32_t piece) {
    // Who sees this piece counted sees its bytes, on the CPU too.
    __threadfence_system();
    const std::uint32_t wave = piece / gridDim.x;
    const std::uint32_t first = wave * gridDim.x;
    const std::uint32_t of_wave = min(gridDim.x, pieces.count - first);
    if (atomicAdd(ring.landed + wave, 1U) + 1 != of_wave) return;
    // Waves complete in any order and are published in theirs: the word only grows. The pieces before were
    // taken before, by blocks that run, so that this wait ends.
    while (load_now(&ring.counters->published) != wave) {
    }
    // The other blocks' pieces come before the word, and a word before the next one.
    __threadfence_system();
    const std::uint32_t landed = min(tiles, (first + of_wave) * pieces.tiles_each);
    store_now(reinterpret_cast<std::uint64_t*>(record.ready), record.word + landed);
    __threadfence_system();
    store_now(&ring.counters->published, wave + 1);
}

// By one thread of each block, at its end: the last one makes ready for the next launch.
__device__ void leave(const LaunchRing& ring, const LaunchRecord& record, const Pieces& pieces) {
    __threadfence_system();
    LaunchCounters& counters = *ring.counters;
    if (atomicAdd(&counters.left, 1U) + 1 != gridDim.x) return;
    __threadfence_system();
    for (std::uint32_t wave = 0; wave * gridDim.x < pieces.count; ++wave) store_now(ring.landed + wave, 0U);
    store_now(&counters.taken, 0U);
    store_now(&counters.left, 0U);
    store_now(&counters.published, 0U);
    store_now(&counters.next, record.ticket);
    store_now(&ring.outcomes[record.ticket % ring.places].finished_ticket, record.ticket);
}

template <Dtype D, bool kGathers>
__global__ void __launch_bounds__(kBlockThreads)
    store_slice(SliceRows rows, LaunchRing ring, bool behind_inputs) {
    __shared__ LaunchRecord record;
    __shared__ std::uint32_t taken;
    bool found = fetch_record(ring, record);
    if (behind_inputs) found = found && load_now(&ring.counters->inputs_of) == record.ticket;
    if (!found) {
        if (blockIdx.x == 0 && threadIdx.x == 0) {
            store_now(ring.empty_launches, load_now(ring.empty_launches) + 1);
        }
        return;
    }
    const SliceTarget target{reinterpret_cast<void*>(record.elements),
                             reinterpret_cast<float*>(record.maxima), rows.maxima_stride, record.columns};
    const Pieces pieces = cut(rows.tiles, tile_row_bytes(rows, record.columns), gridDim.x);
    while (true) {
        if (threadIdx.x == 0) taken = atomicAdd(&ring.counters->taken, 1U);
        __syncthreads();
        const std::uint32_t piece = taken;
        if (piece >= pieces.count) break;
        const std::uint32_t first = piece * pieces.tiles_each;
        lay_tiles<D, kGathers>(rows, target, {first, min(first + pieces.tiles_each, rows.tiles)});
        __syncthreads();
        if (threadIdx.x == 0) land(ring, record, pieces, rows.tiles, piece);
    }
    if (threadIdx.x == 0) leave(ring, record, pieces);
}

template <Dtype D, bool kGathers>
__global__ void __launch_bounds__(kBlockThreads)
    lay_range(SliceRows rows, SliceTarget target, TileRange tiles, std::uint32_t tiles_each,
              std::uint64_t* next) {
    // A launch that reads it is behind this one in the stream.
    if (next != nullptr && blockIdx.x == 0 && threadIdx.x == 0) ++*next;
    for (std::uint32_t first = tiles.first + blockIdx.x * tiles_each; first < tiles.end;
         first += gridDim.x * tiles_each) {
        lay_tiles<D, kGathers>(rows, target, {first, min(first + tiles_each, tiles.end)});
        __syncthreads();
    }
}

__global__ void __launch_bounds__(kBlockThreads) keep_inputs(EnqueuedRows rows, LaunchRing ring) {
    __shared__ LaunchRecord record;
    const bool found = fetch_record(ring, record);
    if (threadIdx.x == 0) store_now(&ring.counters->inputs_of, found ? record.ticket : 0);
    // An empty launch is counted by the slice's kernel, which follows.
    if (!found) return;
    // A record has its ticket last.
    __threadfence_system();
    const std::uint64_t to = load_now(ring.inputs + record.ticket % ring.places);
    if (to != 0) store_inputs<kBlockThreads>(rows, to, record.columns);
}

__global__ void __launch_bounds__(kBlockThreads) make_randoms(LaunchRing ring) {
    __shared__ LaunchRecord record;
    // An empty launch is counted by the slice's kernel, which follows.
    if (!fetch_record(ring, record)) return;
    const ColumnSeed* seeds = ring.seeds + record.ticket % ring.places * ring.max_batch;
    auto* randoms = reinterpret_cast<proto::ColumnRandoms*>(record.randoms);
    for (std::uint32_t column = threadIdx.x; column < record.columns; column += kBlockThreads) {
        const std::uint64_t seed = load_now(&seeds[column].seed);
        const std::uint32_t position = load_now(&seeds[column].position);
        const std::uint32_t child = load_now(&seeds[column].child);
        for (std::uint32_t stream = 0; stream < 4; ++stream) {
            randoms[column].stream[stream] = proto::random_at(seed, position, child, stream);
        }
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    __threadfence_system();
    store_now(reinterpret_cast<std::uint64_t*>(record.randoms_ready), record.word + 1);
}

__global__ void __launch_bounds__(kBlockThreads) fetch_tokens(TokensToFetch from, std::int32_t* tokens) {
    const std::uint32_t column = blockIdx.x * kBlockThreads + threadIdx.x;
    if (column >= from.count) return;
    tokens[column] = load_now(reinterpret_cast<const std::int32_t*>(from.first + column * from.stride));
}

cudaLaunchConfig_t grid_of(std::uint32_t blocks, cudaStream_t stream) {
    cudaLaunchConfig_t config{};
    config.gridDim = blocks;
    config.blockDim = kBlockThreads;
    config.stream = stream;
    return config;
}

template <Dtype D>
struct Store {
    static void launch(const SliceRows& rows, const LaunchRing& ring, bool behind_inputs,
                       std::uint32_t blocks, cudaStream_t stream) {
        const auto kernel = rows.row_of == nullptr ? store_slice<D, false> : store_slice<D, true>;
        const cudaLaunchConfig_t config = grid_of(blocks, stream);
        (void)cudaLaunchKernelEx(&config, kernel, rows, ring, behind_inputs);
    }
};

template <Dtype D>
struct Tiling {
    static void launch(const SliceRows& rows, const SliceTarget& target, TileRange tiles, std::uint64_t* next,
                       cudaStream_t stream) {
        // All multiprocessors for some microseconds: more blocks than any GPU holds at once.
        constexpr std::uint32_t kMostBlocks = 1024;
        const std::uint64_t row_bytes =
            std::uint64_t{target.columns} * rows.tile * proto::element_bytes(rows.dtype);
        const Pieces pieces = cut(tiles.end - tiles.first, row_bytes, kMostBlocks);
        const auto kernel = rows.row_of == nullptr ? lay_range<D, false> : lay_range<D, true>;
        const cudaLaunchConfig_t config = grid_of(std::min(pieces.count, kMostBlocks), stream);
        (void)cudaLaunchKernelEx(&config, kernel, rows, target, tiles, pieces.tiles_each, next);
    }
};

}  // namespace

std::uint32_t waves_at_most(std::uint64_t slice_bytes) {
    // cut() makes no piece shorter than half of what it wants; one wave is one piece where there is one
    // block.
    return static_cast<std::uint32_t>(2 * slice_bytes / kMostPiece + 4 * kPiecesABlock);
}

std::uint32_t tile_granule(std::uint64_t tile_row_bytes) {
    return granule_of(tile_row_bytes);
}

cudaError_t launch_store(const SliceRows& rows, const LaunchRing& ring, bool behind_inputs,
                         std::uint32_t blocks, cudaStream_t stream) {
    launch_of<Store>(rows.dtype, rows, ring, behind_inputs, blocks, stream);
    return cudaGetLastError();
}

cudaError_t launch_tiling(const SliceRows& rows, const SliceTarget& target, TileRange tiles,
                          std::uint64_t* next, cudaStream_t stream) {
    launch_of<Tiling>(rows.dtype, rows, target, tiles, next, stream);
    return cudaGetLastError();
}

cudaError_t launch_inputs(const EnqueuedRows& rows, const LaunchRing& ring, cudaStream_t stream) {
    const cudaLaunchConfig_t config = grid_of(1, stream);
    (void)cudaLaunchKernelEx(&config, keep_inputs, rows, ring);
    return cudaGetLastError();
}

cudaError_t launch_randoms(const LaunchRing& ring, cudaStream_t stream) {
    const cudaLaunchConfig_t config = grid_of(1, stream);
    (void)cudaLaunchKernelEx(&config, make_randoms, ring);
    return cudaGetLastError();
}

cudaError_t launch_tokens(const TokensToFetch& from, std::int32_t* tokens, cudaStream_t stream) {
    const cudaLaunchConfig_t config = grid_of((from.count + kBlockThreads - 1) / kBlockThreads, stream);
    (void)cudaLaunchKernelEx(&config, fetch_tokens, from, tokens);
    return cudaGetLastError();
}

cudaError_t load_tokens_kernel() {
    cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, fetch_tokens);
}

}  // namespace croupier::gpu_writer
