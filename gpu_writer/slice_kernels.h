// The GPU's side of a slice, as plain calls: each enqueues one kernel on a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu_writer/enqueued_rows.h"
#include "gpu_writer/launch_record.h"
#include "proto/dtype.h"

namespace croupier::gpu_writer {

// The rows of a step as the LM head left them, and how the session wants them.
struct SliceRows {
    const void* logits = nullptr;
    std::uint64_t row_stride = 0;          // elements
    const std::uint32_t* order = nullptr;  // SliceShape::order in GPU memory
    proto::Dtype dtype = proto::Dtype::bf16;
    std::uint32_t tile = 1;
    // As in SliceShape.
    std::uint32_t lead = 0;
    std::uint32_t entries = 0;
    std::uint32_t places = 0;
    std::uint32_t tiles = 0;
    std::uint32_t maxima_stride = 0;
    const std::int32_t* row_of = nullptr;  // by column, -1: it has none; null: the column's own number
};

struct SliceTarget {
    void* elements = nullptr;
    float* maxima = nullptr;  // [columns][maxima_stride]
    std::uint32_t maxima_stride = 0;
    std::uint32_t columns = 0;
};

struct TileRange {
    std::uint32_t first = 0;
    std::uint32_t end = 0;
};

// In GPU memory. All but the first two are zero between launches.
struct LaunchCounters {
    std::uint64_t next = 0;       // launches that have found a record
    std::uint64_t inputs_of = 0;  // the record that the last launch_inputs() found; 0: none
    std::uint32_t taken = 0;      // pieces that a block has
    std::uint32_t left = 0;       // blocks that are done
    std::uint32_t published = 0;  // waves
    std::uint32_t reserved = 0;
};

// Where a launch finds its record, and what it leaves; one place for each step that may be begun.
struct LaunchRing {
    const LaunchRecord* records = nullptr;
    const ColumnSeed* seeds = nullptr;  // max_batch for each record
    // For each record, where what rows were computed from is stored; 0: the step has no windows.
    const std::uint64_t* inputs = nullptr;
    LaunchOutcome* outcomes = nullptr;
    std::uint64_t* empty_launches = nullptr;
    LaunchCounters* counters = nullptr;
    std::uint32_t* landed = nullptr;  // pieces of each wave; waves_at_most() of them, zero between launches
    std::uint32_t places = 0;
    std::uint32_t max_batch = 0;
};

// Of a slice of so many bytes.
std::uint32_t waves_at_most(std::uint64_t slice_bytes);
// The fewest tiles, times any number, whose bytes are whole 16-byte stores.
std::uint32_t tile_granule(std::uint64_t tile_row_bytes);

// Stores the next record's slice straight where the record says, `blocks` pieces at a time in the
// vocabulary's order, and publishes each such wave. `behind_inputs`: not what launch_inputs() has not found,
// for it may be begun between the two.
cudaError_t launch_store(const SliceRows& rows, const LaunchRing& ring, bool behind_inputs,
                         std::uint32_t blocks, cudaStream_t stream);
// Lays a range of tiles into GPU memory. `next`, where given, is counted up: the record is used.
cudaError_t launch_tiling(const SliceRows& rows, const SliceTarget& target, TileRange tiles,
                          std::uint64_t* next, cudaStream_t stream);
// What the next record's rows were computed from, if it has windows: before its slice on the same stream,
// which is then stored behind_inputs. The record stays the next one.
cudaError_t launch_inputs(const EnqueuedRows& rows, const LaunchRing& ring, cudaStream_t stream);
// The randoms of the next record's columns, and their ready word. The record stays the next one.
cudaError_t launch_randoms(const LaunchRing& ring, cudaStream_t stream);
// In pinned or registered memory: the device's address of the first token, and the bytes from each to the
// next.
struct TokensToFetch {
    std::uint64_t first;
    std::uint64_t stride;
    std::uint32_t count;
};
cudaError_t launch_tokens(const TokensToFetch& from, std::int32_t* tokens, cudaStream_t stream);
// Before a stream waits for what it then launches: CUDA loads kernels late, and waits for the GPU then.
cudaError_t load_tokens_kernel();

}  // namespace croupier::gpu_writer
