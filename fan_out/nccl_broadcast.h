// One communicator, its stream and its buffers: broadcasts bytes from rank 0, in order.
#pragma once

#include <array>
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

    // Rank 0's: whether there is a place for so many bytes behind those that are under way.
    shm::Result<bool> may_send(std::size_t bytes);
    // Begins to send; only where may_send() says so.
    shm::Result<bool> send(std::span<const std::uint8_t> bytes);
    // Another rank's, one at a time: begins to receive so many; they are there when finished() says so.
    shm::Result<bool> receive(std::size_t bytes);
    std::span<const std::uint8_t> received() const { return {large_.staging.get(), size_}; }
    // Of all that was begun.
    shm::Result<bool> finished();

  private:
    static constexpr std::size_t kPlaces = 32;
    static constexpr std::size_t kPlaceBytes = std::size_t{64} << 10U;
    struct Place {
        gpu_writer::PinnedMemory<std::uint8_t> staging;
        gpu_writer::DeviceMemory<std::uint8_t> memory;
        gpu_writer::Event sent;
    };

    NcclBroadcast(const NcclLibrary& nccl, int device) : nccl_(&nccl), device_(device) {}
    shm::Result<bool> begin(const ncclUniqueId& id, std::uint32_t ranks, std::uint32_t rank);
    shm::Result<bool> meet(std::uint32_t rank, std::chrono::milliseconds timeout,
                           const PeersAlive& peers_alive);
    shm::Result<bool> make_places();
    shm::Result<bool> make_room(std::size_t bytes);
    shm::Result<bool> enqueue(std::uint8_t* memory, std::size_t bytes);
    shm::Result<bool> settled();

    const NcclLibrary* nccl_;
    int device_;
    ncclComm_t comm_ = nullptr;
    gpu_writer::Stream stream_;
    // Records of usual sizes, taken in turn: many are under way at once.
    std::array<Place, kPlaces> places_;
    std::size_t next_place_ = 0;
    // Its broadcast may not be on the stream yet: what marks its end is, once NCCL has settled.
    Place* unmarked_ = nullptr;
    // Others, and what is received. It grows only while nothing is under way: to free memory waits for the
    // GPU.
    Place large_;
    std::size_t room_ = 0;    // of the large one
    std::size_t size_ = 0;    // of the last that was received
    bool copy_owed_ = false;  // what is received is not on its way from the GPU yet
};

}  // namespace croupier::fan_out
