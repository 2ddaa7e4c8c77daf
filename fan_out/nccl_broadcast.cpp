#include "fan_out/nccl_broadcast.h"

#include <array>
#include <bit>
#include <cstring>
#include <thread>

namespace croupier::fan_out {
namespace {

using std::chrono::steady_clock;

// NCCL launches a broadcast from its own thread, which takes tens of microseconds. The caller waits for
// anything that takes longer.
constexpr std::chrono::milliseconds kLaunch{1};

template <typename Condition>
shm::Result<bool> await(steady_clock::time_point deadline, const NcclBroadcast::PeersAlive& peers_alive,
                        const char* what, const Condition& condition) {
    while (true) {
        auto holds = condition();
        if (!holds || holds.value()) return holds;
        CROUPIER_TRY(peers_alive());
        if (steady_clock::now() > deadline) {
            return shm::fail(shm::Errc::timed_out,
                             std::string("NCCL did not ") + what + " in time: do the GPUs reach each other?");
        }
        std::this_thread::yield();
    }
}

}  // namespace

shm::Result<ncclUniqueId> NcclBroadcast::fresh_id(int device) {
    CROUPIER_TRY_VALUE(nccl, NcclLibrary::load());
    const gpu_writer::DeviceScope scope(device);
    ncclUniqueId id{};
    CROUPIER_TRY(nccl->done(nccl->get_unique_id(&id), "NCCL cannot make a group's id"));
    return id;
}

shm::Result<std::unique_ptr<NcclBroadcast>> NcclBroadcast::join(const ncclUniqueId& id, std::uint32_t ranks,
                                                                std::uint32_t rank, int device,
                                                                std::chrono::milliseconds timeout,
                                                                const PeersAlive& peers_alive) {
    CROUPIER_TRY_VALUE(nccl, NcclLibrary::load());
    std::unique_ptr<NcclBroadcast> made(new NcclBroadcast(*nccl, device));
    CROUPIER_TRY(made->begin(id, ranks, rank));
    CROUPIER_TRY(made->meet(rank, timeout, peers_alive));
    return made;
}

shm::Result<bool> NcclBroadcast::begin(const ncclUniqueId& id, std::uint32_t ranks, std::uint32_t rank) {
    const gpu_writer::DeviceScope scope(device_);
    auto chosen = gpu_writer::cuda_done(cudaSetDevice(device_), "cannot use GPU " + std::to_string(device_));
    if (!chosen) return chosen;
    CROUPIER_TRY(gpu_writer::keep(stream_, gpu_writer::make_stream()));
    CROUPIER_TRY(make_room(kPlaceBytes));
    if (rank == 0) {
        CROUPIER_TRY(make_places());
    }
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    // A member that never joins must not block this call for ever.
    config.blocking = 0;
    // One block leaves the other multiprocessors to the worker's own kernels.
    config.minCTAs = 1;
    config.maxCTAs = 1;
    return nccl_->done(nccl_->init_rank(&comm_, static_cast<int>(ranks), id, static_cast<int>(rank), &config),
                       "NCCL cannot begin a group of " + std::to_string(ranks));
}

// The first broadcast makes the connections, which needs all ranks. A later one must not wait for them while
// a member does not receive.
shm::Result<bool> NcclBroadcast::meet(std::uint32_t rank, std::chrono::milliseconds timeout,
                                      const PeersAlive& peers_alive) {
    const gpu_writer::DeviceScope scope(device_);
    const auto deadline = steady_clock::now() + timeout;
    auto joined = await(deadline, peers_alive, "join its ranks", [this] { return settled(); });
    if (!joined) return joined;
    const std::array<std::uint8_t, 1> greeting{};
    auto begun = rank == 0 ? send(greeting) : receive(greeting.size());
    if (!begun) return begun;
    return await(deadline, peers_alive, "carry a first broadcast", [this] { return finished(); });
}

NcclBroadcast::~NcclBroadcast() {
    const gpu_writer::DeviceScope scope(device_);
    // Also used for a sound group: it waits for no rank, and finished broadcasts stay finished.
    if (comm_ != nullptr) (void)nccl_->abort(comm_);
    if (stream_ != nullptr) (void)cudaStreamSynchronize(stream_.get());
}

shm::Result<bool> NcclBroadcast::settled() {
    ncclResult_t state = ncclSuccess;
    auto asked = nccl_->done(nccl_->async_error(comm_, &state), "NCCL does not tell its state");
    if (!asked) return asked;
    CROUPIER_TRY(nccl_->done(state, "NCCL failed"));
    return state != ncclInProgress;
}

shm::Result<bool> NcclBroadcast::make_places() {
    for (Place& place : places_) {
        CROUPIER_TRY(
            gpu_writer::keep(place.staging, gpu_writer::pinned_array<std::uint8_t>(kPlaceBytes, "a record")));
        CROUPIER_TRY(
            gpu_writer::keep(place.memory, gpu_writer::device_array<std::uint8_t>(kPlaceBytes, "a record")));
        CROUPIER_TRY(gpu_writer::keep(place.sent, gpu_writer::make_event()));
    }
    return true;
}

shm::Result<bool> NcclBroadcast::make_room(std::size_t bytes) {
    if (bytes <= room_) return true;
    const std::size_t room = std::bit_ceil(bytes);
    CROUPIER_TRY(
        gpu_writer::keep(large_.staging, gpu_writer::pinned_array<std::uint8_t>(room, "a large record")));
    CROUPIER_TRY(
        gpu_writer::keep(large_.memory, gpu_writer::device_array<std::uint8_t>(room, "a large record")));
    room_ = room;
    return true;
}

shm::Result<bool> NcclBroadcast::enqueue(std::uint8_t* memory, std::size_t bytes) {
    return nccl_->done(nccl_->broadcast(memory, memory, bytes, ncclUint8, 0, comm_, stream_.get()),
                       "NCCL cannot broadcast " + std::to_string(bytes) + " bytes");
}

shm::Result<bool> NcclBroadcast::may_send(std::size_t bytes) {
    const gpu_writer::DeviceScope scope(device_);
    const auto deadline = steady_clock::now() + kLaunch;
    auto launched = settled();
    while (launched && !launched.value() && steady_clock::now() < deadline) {
        std::this_thread::yield();
        launched = settled();
    }
    if (!launched || !launched.value()) return launched;
    if (unmarked_ != nullptr) {
        CROUPIER_TRY(gpu_writer::cuda_done(cudaEventRecord(unmarked_->sent.get(), stream_.get()),
                                           "cannot mark a record's end"));
        unmarked_ = nullptr;
    }
    if (bytes > kPlaceBytes) return finished();
    const cudaError_t status = cudaEventQuery(places_[next_place_].sent.get());
    if (status == cudaErrorNotReady) return false;
    return gpu_writer::cuda_done(status, "a broadcast failed on the GPU");
}

shm::Result<bool> NcclBroadcast::send(std::span<const std::uint8_t> bytes) {
    const gpu_writer::DeviceScope scope(device_);
    Place* place = &large_;
    if (bytes.size() > kPlaceBytes) {
        CROUPIER_TRY(make_room(bytes.size()));
    } else {
        place = unmarked_ = &places_[next_place_];
        next_place_ = (next_place_ + 1) % kPlaces;
    }
    std::memcpy(place->staging.get(), bytes.data(), bytes.size());
    auto copied = gpu_writer::cuda_done(cudaMemcpyAsync(place->memory.get(), place->staging.get(),
                                                        bytes.size(), cudaMemcpyHostToDevice, stream_.get()),
                                        "cannot copy a record to the GPU");
    if (!copied) return copied;
    return enqueue(place->memory.get(), bytes.size());
}

shm::Result<bool> NcclBroadcast::receive(std::size_t bytes) {
    const gpu_writer::DeviceScope scope(device_);
    CROUPIER_TRY(make_room(bytes));
    copy_owed_ = true;
    size_ = bytes;
    return enqueue(large_.memory.get(), bytes);
}

shm::Result<bool> NcclBroadcast::finished() {
    const gpu_writer::DeviceScope scope(device_);
    auto well = settled();
    if (!well || !well.value()) return well;
    if (copy_owed_) {
        // Not earlier: until NCCL has settled, its broadcast may not be on the stream yet.
        copy_owed_ = false;
        auto copied = gpu_writer::cuda_done(cudaMemcpyAsync(large_.staging.get(), large_.memory.get(), size_,
                                                            cudaMemcpyDeviceToHost, stream_.get()),
                                            "cannot copy a record from the GPU");
        if (!copied) return copied;
    }
    const cudaError_t status = cudaStreamQuery(stream_.get());
    if (status == cudaErrorNotReady) return false;
    return gpu_writer::cuda_done(status, "a broadcast failed on the GPU");
}

}  // namespace croupier::fan_out
