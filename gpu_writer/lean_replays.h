// The lean steps that a launch finds by itself (gpu_writer/lean_replay.h): the replay of a CUDA graph, or one
// of rows that the engine's arrays tell of.
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
    // there is such a stream. `sent` are the places of a step with windows.
    shm::Result<bool> prepare(LeanRecord record, std::span<const LeanWant> wants,
                              std::span<const SentPlace> sent, cudaStream_t preparing);
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
    PinnedMemory<SentPlace> sent_;
    DeviceMemory<std::uint64_t> told_;
    DeviceMemory<FoundRows> rows_;
    DeviceMemory<std::int32_t> rows_of_;
    DeviceMemory<LeanRecord> found_;
    DeviceMemory<LeanWant> found_wants_;
    DeviceMemory<std::uint32_t> found_columns_;
    DeviceMemory<SentPlace> found_sent_;
    ReplayRing ring_;
};

}  // namespace croupier::gpu_writer
