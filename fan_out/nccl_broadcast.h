// One communicator, its stream and its buffers: broadcasts bytes from rank 0, one broadcast at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "fan_out/nccl_library.h"
#include "gpu_writer/cuda_memory.h"

namespace croupier::fan_out {

class NcclBroadcast {
  public:
    // Asked between two looks at what another rank has yet to do: an error ends the wait.
    using PeersAlive = std::function<shm::Result<bool>()>;

    // With every rank of the group, which meet by `id`.
    static shm::Result<std::unique_ptr<NcclBroadcast>> join(const ncclUniqueId& id, std::uint32_t ranks,
                                                            std::uint32_t rank, int device,
                                                            std::chrono::milliseconds timeout,
                                                            const PeersAlive& peers_alive);
    NcclBroadcast(const NcclBroadcast&) = delete;
    NcclBroadcast& operator=(const NcclBroadcast&) = delete;
    // Ends what is under way.
    ~NcclBroadcast();

    static shm::Result<ncclUniqueId> fresh_id(int device);

    // Rank 0's: begins to send; may be called again when finished() says so.
    shm::Result<bool> send(std::span<const std::uint8_t> bytes);
    // Another rank's: begins to receive so many; they are there when finished() says so.
    shm::Result<bool> receive(std::size_t bytes);
    std::span<const std::uint8_t> received() const { return {staging_.get(), size_}; }
    shm::Result<bool> finished();

  private:
    NcclBroadcast(const NcclLibrary& nccl, int device) : nccl_(&nccl), device_(device) {}
    shm::Result<bool> begin(const ncclUniqueId& id, std::uint32_t ranks, std::uint32_t rank);
    shm::Result<bool> meet(std::uint32_t rank, std::chrono::milliseconds timeout,
                           const PeersAlive& peers_alive);
    shm::Result<bool> make_room(std::size_t bytes);
    shm::Result<bool> enqueue(std::size_t bytes);
    shm::Result<bool> settled();

    const NcclLibrary* nccl_;
    int device_;
    ncclComm_t comm_ = nullptr;
    gpu_writer::Stream stream_;
    gpu_writer::PinnedMemory<std::uint8_t> staging_;
    gpu_writer::DeviceMemory<std::uint8_t> memory_;
    std::size_t room_ = 0;
    std::size_t size_ = 0;    // of the last broadcast
    bool copy_owed_ = false;  // what is received is not on its way from the GPU yet
};

}  // namespace croupier::fan_out
