// Broadcasts bytes from rank 0, in order: one NCCL communicator with its stream and buffers.
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
    // Called repeatedly while another rank is awaited. An error ends the wait.
    using PeersAlive = std::function<shm::Result<bool>()>;

    // Joins the communicator `id` together with every other rank.
    static shm::Result<std::unique_ptr<NcclBroadcast>> join(const ncclUniqueId& id, std::uint32_t ranks,
                                                            std::uint32_t rank, int device,
                                                            std::chrono::milliseconds timeout,
                                                            const PeersAlive& peers_alive);
    NcclBroadcast(const NcclBroadcast&) = delete;
    NcclBroadcast& operator=(const NcclBroadcast&) = delete;
    // Aborts the broadcasts in flight.
    ~NcclBroadcast();

    static shm::Result<ncclUniqueId> fresh_id(int device);

    // Rank 0: whether there is room for so many bytes beside those in flight.
    shm::Result<bool> may_send(std::size_t bytes);
    // Begins to send. may_send() must have returned true.
    shm::Result<bool> send(std::span<const std::uint8_t> bytes);
    // Another rank, one record at a time: begins to receive so many bytes. finished() tells when they are
    // there.
    shm::Result<bool> receive(std::size_t bytes);
    std::span<const std::uint8_t> received() const { return {large_.staging.get(), size_}; }
    // Whether everything that was begun is finished.
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
    // Buffers for records of the usual sizes, used in turn, so that many can be in flight.
    std::array<Place, kPlaces> places_;
    std::size_t next_place_ = 0;
    // The broadcast may not be on the stream yet. Its end event is, once NCCL has settled.
    Place* unmarked_ = nullptr;
    // The buffer for larger records and for receiving. It grows only while nothing is in flight, because
    // freeing memory waits for the GPU.
    Place large_;
    std::size_t room_ = 0;    // of the large buffer
    std::size_t size_ = 0;    // of the last received record
    bool copy_owed_ = false;  // the copy of the received record from the GPU has not begun
};

}  // namespace croupier::fan_out
