// The lean steps of a writer whose enqueue was captured into a CUDA graph: as steps begin, it leaves what
// their replays find (gpu_writer/lean_replay.h).
#pragma once

#include <cstdint>
#include <span>

#include "gpu_writer/cuda_memory.h"
#include "gpu_writer/lean_replay.h"
#include "proto/geometry.h"

namespace croupier::gpu_writer {

class LeanReplays {
  public:
    // Loads the kernels too. `next` and `empty_launches` are those of the writer's launches.
    static shm::Result<LeanReplays> make(const proto::Geometry& geometry, std::uint64_t* next,
                                         std::uint64_t* empty_launches);

    // The record says all but what the slot is told: what `preparing` holds comes before the step, where
    // there is such a stream.
    shm::Result<bool> prepare(LeanRecord record, std::span<const LeanWant> wants, cudaStream_t preparing);
    // A replay from now on finds the record that is prepared.
    void publish(std::uint64_t ticket);
    // No replay finds it until it is published anew.
    void forget(std::uint64_t ticket);

    const ReplayRing& ring() const { return ring_; }
    // The slot's, in the GPU's memory.
    const FoundRows* rows(std::uint32_t slot) const { return rows_.get() + slot; }

  private:
    LeanReplays() = default;
    shm::Result<bool> make_memory(const proto::Geometry& geometry);

    PinnedMemory<LeanRecord> records_;
    PinnedMemory<LeanWant> wants_;
    DeviceMemory<std::uint64_t> told_;
    DeviceMemory<FoundRows> rows_;
    DeviceMemory<LeanRecord> found_;
    DeviceMemory<LeanWant> found_wants_;
    DeviceMemory<std::uint32_t> found_columns_;
    ReplayRing ring_;
};

}  // namespace croupier::gpu_writer
