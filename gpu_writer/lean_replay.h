// A lean step as the replay of a CUDA graph sends it: a captured launch has the same arguments each time, so
// its kernels find on the GPU which step is next, and what it wants.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "gpu_writer/enqueued_rows.h"
#include "gpu_writer/lean_kernels.h"
#include "gpu_writer/slice_kernels.h"
#include "proto/lean_order.h"

namespace croupier::gpu_writer {

// What differs from step to step, written when one begins. In pinned memory; addresses are the device's.
struct alignas(16) LeanRecord {
    std::uint64_t ticket = 0;   // of the n-th step that was begun: n; 0: none
    std::uint64_t opening = 0;  // of its answers
    std::uint64_t told = 0;     // the step waits until its slot is told so much; 0: for nothing
    std::uint64_t part = 0;     // LeanTarget's
    LeanSlice slice;
    StepMasks masks;
    StepNames names;
    LeanEnd end;
    std::uint64_t inputs = 0;                           // where what rows were computed from is stored
    std::uint32_t part_sizes[proto::kLeanStamps] = {};  // columns
    proto::LeanOrder order{1};                          // without windows
    // Where its rows are copied; null: they are lent.
    std::byte* kept = nullptr;
    std::uint32_t slot = 0;
    std::uint32_t windows = 0;  // 1: the step has some, and so inputs, part sizes and places
};
static_assert(sizeof(LeanRecord) % sizeof(uint4) == 0);

using SentPlace = proto::WindowOrder::Place;

// Where the rows of a slot's step stand, as the GPU tells it: which graph is replayed, only the GPU knows.
// It is there once the opening is.
struct FoundRows {
    std::uint64_t opening = 0;
    const void* logits = nullptr;
    std::uint64_t row_stride = 0;
    const std::int32_t* row_of = nullptr;
};

// The step that a replay has found, for the kernels behind the one that found it. All is in GPU memory.
struct FoundStep {
    LeanRecord* record = nullptr;  // of no columns where no step was begun
    LeanWant* wants = nullptr;
    std::uint32_t* counts = nullptr;   // by FoundCount
    std::uint32_t* whole = nullptr;    // columns
    std::uint32_t* spreads = nullptr;  // likewise
    SentPlace* sent = nullptr;         // places, of a step with windows
};
enum FoundCount : std::uint32_t { kFoundWhole, kFoundSpreads, kFoundKept, kFoundCounts };

// Where a replay finds its step, and what it leaves.
struct ReplayRing {
    const LeanRecord* records = nullptr;  // one place for each step that may be begun
    const LeanWant* wants = nullptr;      // max_batch for each record
    const SentPlace* sent = nullptr;      // room_for_places() for each record
    std::uint64_t* next = nullptr;        // in GPU memory: launches that have found a record
    std::uint64_t* empty_launches = nullptr;
    const std::uint64_t* told = nullptr;  // [slot], in GPU memory
    FoundRows* rows = nullptr;            // [slot], likewise
    std::int32_t* rows_of = nullptr;      // [slot][max_batch], likewise: as the engine's array had them
    FoundStep step;
    std::uint32_t places = 0;
    std::uint32_t max_batch = 0;
};

// Places are copied sixteen bytes at a time.
constexpr std::size_t room_for_places(std::uint32_t max_batch) {
    constexpr std::size_t kTogether = 16 / sizeof(SentPlace);
    return (max_batch + kTogether - 1) / kTogether * kTogether;
}

// What a launch knows of the step that it will find. A replay knows nothing.
struct FoundLimits {
    std::uint32_t columns = 0;  // at most
    bool has_whole = true;      // some columns may be whole
    bool has_spreads = true;
};

// Those that only replays have; the others are loaded with the kernels beside which they stand.
cudaError_t load_replay_kernels(proto::Dtype dtype);

// On one stream: the step is found, and what the engine's arrays say of it. Without inputs it must be one
// without windows. `rows` and `target` are without what differs from step to step.
cudaError_t launch_find_step(const LeanRows& rows, const EnqueuedRows& given, const ReplayRing& ring,
                             cudaStream_t stream);
// Behind it, once its rows are there: its whole columns are laid, its spreads summed, and it is sent.
// `gathers`: arrays were given. The scratch memory is of launch_lean() and of launch_spreads().
cudaError_t launch_found_lean(const LeanRows& rows, bool gathers, const FoundLimits& limits,
                              const LeanTarget& target, const ReplayRing& ring, void* scratch,
                              void* spread_scratch, cudaStream_t stream);
// Behind it, where rows are copied: they are `pitch` bytes apart.
cudaError_t launch_keep_rows(const LeanRows& rows, const ReplayRing& ring, std::uint64_t pitch,
                             cudaStream_t stream);
// Tells a slot: what precedes it in the stream is there.
cudaError_t launch_tell(std::uint64_t* told, std::uint64_t value, cudaStream_t stream);

// The parts of launch_found_lean().
cudaError_t launch_found_whole_columns(const LeanRows& rows, const FoundStep& step, cudaStream_t stream);
cudaError_t launch_found_spreads(const LeanRows& rows, const LeanTarget& target, const FoundStep& step,
                                 void* scratch, cudaStream_t stream);
// Of so many columns at most. `gathers`: the step may have windows, or `rows` say where a column's row is.
cudaError_t launch_send_found(const LeanRows& rows, const LeanTarget& target, const ReplayRing& ring,
                              std::uint32_t columns, bool gathers, void* scratch, cudaStream_t stream);

}  // namespace croupier::gpu_writer
