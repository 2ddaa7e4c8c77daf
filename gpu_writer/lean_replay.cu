#include <algorithm>

#include "gpu_writer/device_words.cuh"
#include "gpu_writer/lean_choice.h"
#include "gpu_writer/lean_replay.h"
#include "gpu_writer/lean_rows.cuh"
#include "gpu_writer/row_inputs.cuh"

namespace croupier::gpu_writer {
namespace {

using proto::Dtype;

constexpr std::uint32_t kFindThreads = 512;
constexpr std::uint32_t kKeepThreads = 256;
// They saturate a GPU's memory.
constexpr std::uint32_t kKeepBlocks = 512;

// By `threads` threads, from unit `first` on each; as many loads are under way as one round trip over the
// link is worth.
__device__ void copy_units(void* to, const void* from, std::size_t units, std::size_t first,
                           std::size_t threads) {
    constexpr std::uint32_t kTogether = 4;
    for (std::size_t base = first; base < units; base += threads * kTogether) {
        uint4 own[kTogether];
#pragma unroll
        for (std::uint32_t i = 0; i < kTogether; ++i) {
            const std::size_t at = base + i * threads;
            if (at < units) own[i] = __ldcv(static_cast<const uint4*>(from) + at);
        }
#pragma unroll
        for (std::uint32_t i = 0; i < kTogether; ++i) {
            const std::size_t at = base + i * threads;
            if (at < units) static_cast<uint4*>(to)[at] = own[i];
        }
    }
}

// The record and, in the same round trip, what as many columns want as have a thread for each unit.
__device__ void fetch_step(const ReplayRing& ring, std::uint64_t place) {
    constexpr std::uint32_t kOfRecord = 32;
    constexpr std::uint32_t kOthers = kFindThreads - kOfRecord;
    constexpr std::uint32_t kUnits = sizeof(LeanWant) / sizeof(uint4);
    const LeanWant* wants = ring.wants + place * ring.max_batch;
    const std::uint32_t some = std::min(ring.max_batch, kOthers / kUnits);
    if (threadIdx.x < kOfRecord) {
        copy_units(ring.step.record, ring.records + place, sizeof(LeanRecord) / sizeof(uint4), threadIdx.x,
                   kOfRecord);
    } else {
        copy_units(ring.step.wants, wants, some * kUnits, threadIdx.x - kOfRecord, kOthers);
    }
    __syncthreads();
    const std::uint32_t columns = ring.step.record->slice.columns;
    if (columns > some) {
        copy_units(ring.step.wants + some, wants + some, std::size_t{columns - some} * kUnits, threadIdx.x,
                   kFindThreads);
    }
    __syncthreads();
}

__device__ void tell_rows(FoundRows& to, std::uint64_t opening, const void* logits, std::uint64_t row_stride,
                          const std::int32_t* row_of) {
    store_now(&to.logits, logits);
    store_now(&to.row_stride, row_stride);
    store_now(&to.row_of, row_of);
    __threadfence();
    store_now(&to.opening, opening);
}

// Whether a step was begun for this replay; all threads are told. Before the rest of the record is read, for
// a record has its ticket last.
__device__ bool is_begun(const ReplayRing& ring, std::uint64_t next) {
    __shared__ bool begun;
    if (threadIdx.x == 0) {
        begun = load_now(&ring.records[(next + 1) % ring.places].ticket) == next + 1;
        __threadfence_system();
        if (!begun) {
            ring.step.record->slice.columns = 0;
            store_now(ring.empty_launches, load_now(ring.empty_launches) + 1);
        }
    }
    __syncthreads();
    return begun;
}

// Which of its columns have a kernel of their own beside the step's.
__device__ void list_columns(const FoundStep& step) {
    for (std::uint32_t column = threadIdx.x; column < step.record->slice.columns; column += kFindThreads) {
        const LeanWant& want = step.wants[column];
        if (want.flags.has(Want::whole)) {
            step.whole[atomicAdd(step.counts + kFoundWhole, 1U)] = column;
        } else if (sums_spread(want)) {
            step.spreads[atomicAdd(step.counts + kFoundSpreads, 1U)] = column;
        }
    }
}

// Before the kernels that read it: what the engine's arrays say. Later work of its stream may write over
// them, and what rows are asked for is answered later.
__device__ void take_arrays(const LeanRows& rows, const EnqueuedRows& given, const ReplayRing& ring,
                            std::uint64_t place) {
    const LeanRecord& record = *ring.step.record;
    const std::uint32_t columns = record.slice.columns;
    if (record.windows != 0) {
        store_inputs<kFindThreads>(given, record.inputs, columns);
        constexpr std::uint32_t kTogether = sizeof(uint4) / sizeof(SentPlace);
        copy_units(ring.step.sent, ring.sent + place * room_for_places(ring.max_batch),
                   (columns + kTogether - 1) / kTogether, threadIdx.x, kFindThreads);
    }
    std::int32_t* const rows_of = ring.rows_of + std::uint64_t{record.slot} * ring.max_batch;
    for (std::uint32_t column = threadIdx.x; column < columns; column += kFindThreads) {
        if (given.row_of != nullptr) {
            const std::int32_t row = given.row_of[column];
            rows_of[column] = is_row(row, rows.row_end) ? row : -1;
        }
        if (given.positions == nullptr || given.positions[column] < 0) continue;
        ring.step.wants[column].key.position = static_cast<std::uint32_t>(given.positions[column]) + 1;
    }
    // Whoever is told of the rows finds where they are.
    __threadfence();
    __syncthreads();
}

__global__ void __launch_bounds__(kFindThreads)
    find_step(LeanRows rows, EnqueuedRows given, ReplayRing ring) {
    const FoundStep& step = ring.step;
    if (threadIdx.x < kFoundCounts) step.counts[threadIdx.x] = 0;
    const std::uint64_t next = load_now(ring.next);
    if (!is_begun(ring, next)) return;
    const std::uint64_t place = (next + 1) % ring.places;
    fetch_step(ring, place);
    list_columns(step);
    if (given.has_arrays()) take_arrays(rows, given, ring, place);
    if (threadIdx.x != 0) return;
    const LeanRecord& record = *step.record;
    // Its masks are copied on another stream, and the answers of an earlier step of its slot end there.
    while (load_now(ring.told + record.slot) < record.told) {
    }
    __threadfence();
    // Where rows are copied, the kernel that copies them tells where they are.
    if (record.kept != nullptr) return;
    const std::int32_t* const rows_of = ring.rows_of + std::uint64_t{record.slot} * ring.max_batch;
    tell_rows(ring.rows[record.slot], record.opening, rows.logits, rows.row_stride,
              given.row_of == nullptr ? nullptr : rows_of);
}

// By one CUDA block: kept rows stand in the order of their columns, of which some may have none.
__device__ const std::int32_t* number_kept_rows(const LeanRows& rows, const ReplayRing& ring) {
    const LeanRecord& record = *ring.step.record;
    std::int32_t* const rows_of = ring.rows_of + std::uint64_t{record.slot} * ring.max_batch;
    for (std::uint32_t column = threadIdx.x; column < record.slice.columns; column += kKeepThreads)
        rows_of[column] =
            is_row(__ldcg(rows.row_of + column), rows.row_end) ? static_cast<std::int32_t>(column) : -1;
    __threadfence();
    __syncthreads();
    return rows_of;
}

// As LeanPath copies them for a step that it sends itself.
template <Dtype D>
__global__ void __launch_bounds__(kKeepThreads)
    keep_rows(LeanRows rows, ReplayRing ring, std::uint64_t pitch) {
    constexpr std::uint32_t kElements = Unit<D>::kElements;
    const LeanRecord& record = *ring.step.record;
    if (record.slice.columns == 0) return;
    const SliceRows in_order = rows_in_order(rows);
    const RowReader<D> reader(in_order);
    // In whole blocks, as RowReader has them.
    std::byte* const to = record.kept - rows.lead * sizeof(typename Element<D>::Code);
    const std::uint32_t units = (rows.lead + rows.entries + kElements - 1) / kElements;
    const std::uint64_t end = std::uint64_t{units} * record.slice.columns;
    for (std::uint64_t i = blockIdx.x * kKeepThreads + threadIdx.x; i < end;
         i += std::uint64_t{gridDim.x} * kKeepThreads) {
        const auto column = static_cast<std::uint32_t>(i / units);
        const auto at = static_cast<std::uint32_t>(i % units);
        const std::int32_t own =
            rows.row_of == nullptr ? static_cast<std::int32_t>(column) : __ldcg(rows.row_of + column);
        if (!is_row(own, rows.row_end)) continue;
        const Unit<D> unit = reader.unit(static_cast<std::uint32_t>(own), at * kElements);
        unit.store(to + column * pitch, at);
    }
    if (!arrives_last(ring.step.counts + kFoundKept, gridDim.x)) return;
    const std::int32_t* const rows_of = rows.row_of == nullptr ? nullptr : number_kept_rows(rows, ring);
    if (threadIdx.x != 0) return;
    tell_rows(ring.rows[record.slot], record.opening, record.kept, pitch / sizeof(typename Element<D>::Code),
              rows_of);
}

__global__ void tell(std::uint64_t* told, std::uint64_t value) {
    store_now(told, value);
}

template <Dtype D>
struct Keeping {
    static void launch(const LeanRows& rows, const ReplayRing& ring, std::uint64_t pitch,
                       cudaStream_t stream) {
        cudaLaunchConfig_t config{};
        config.gridDim = kKeepBlocks;
        config.blockDim = kKeepThreads;
        config.stream = stream;
        (void)cudaLaunchKernelEx(&config, keep_rows<D>, rows, ring, pitch);
    }
};

template <Dtype D>
struct Loading {
    static void launch(cudaError_t* status) { load(keep_rows<D>, *status); }
};

}  // namespace

cudaError_t load_replay_kernels(Dtype dtype) {
    cudaError_t status = cudaSuccess;
    load(find_step, status);
    load(tell, status);
    launch_of<Loading>(dtype, &status);
    return status;
}

cudaError_t launch_find_step(const LeanRows& rows, const EnqueuedRows& given, const ReplayRing& ring,
                             cudaStream_t stream) {
    cudaLaunchConfig_t config{};
    config.gridDim = 1;
    config.blockDim = kFindThreads;
    config.stream = stream;
    (void)cudaLaunchKernelEx(&config, find_step, rows, given, ring);
    return cudaGetLastError();
}

cudaError_t launch_keep_rows(const LeanRows& rows, const ReplayRing& ring, std::uint64_t pitch,
                             cudaStream_t stream) {
    launch_of<Keeping>(rows.dtype, rows, ring, pitch, stream);
    return cudaGetLastError();
}

cudaError_t launch_tell(std::uint64_t* told, std::uint64_t value, cudaStream_t stream) {
    cudaLaunchConfig_t config{};
    config.gridDim = 1;
    config.blockDim = 1;
    config.stream = stream;
    (void)cudaLaunchKernelEx(&config, tell, told, value);
    return cudaGetLastError();
}

cudaError_t launch_found_lean(const LeanRows& rows, bool gathers, const FoundLimits& limits,
                              const LeanTarget& target, const ReplayRing& ring, void* scratch,
                              void* spread_scratch, cudaStream_t stream) {
    cudaError_t status = cudaSuccess;
    if (limits.has_whole) status = launch_found_whole_columns(rows, ring.step, stream);
    if (status == cudaSuccess && limits.has_spreads)
        status = launch_found_spreads(rows, target, ring.step, spread_scratch, stream);
    if (status != cudaSuccess) return status;
    return launch_send_found(rows, target, ring, limits.columns, gathers, scratch, stream);
}

}  // namespace croupier::gpu_writer
