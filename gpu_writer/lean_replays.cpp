#include "gpu_writer/lean_replays.h"

#include <algorithm>
#include <atomic>

namespace croupier::gpu_writer {

shm::Result<LeanReplays> LeanReplays::make(const proto::Geometry& geometry, std::uint64_t* next,
                                           std::uint64_t* empty_launches) {
    CROUPIER_TRY(cuda_done(load_replay_kernels(geometry.dtype),
                           "cannot load the kernels of lean steps that are replayed"));
    LeanReplays replays;
    replays.ring_.next = next;
    replays.ring_.empty_launches = empty_launches;
    CROUPIER_TRY(replays.make_memory(geometry));
    return replays;
}

shm::Result<bool> LeanReplays::make_memory(const proto::Geometry& geometry) {
    const std::string what = "lean steps that are replayed";
    const std::size_t columns = geometry.max_batch;
    const std::size_t places = room_for_places(geometry.max_batch);
    CROUPIER_TRY(keep(records_, pinned_array<LeanRecord>(geometry.slots, what)));
    CROUPIER_TRY(keep(wants_, pinned_array<LeanWant>(geometry.slots * columns, what)));
    CROUPIER_TRY(keep(sent_, pinned_array<SentPlace>(geometry.slots * places, what)));
    CROUPIER_TRY(keep(told_, device_array<std::uint64_t>(geometry.slots, what)));
    CROUPIER_TRY(keep(rows_, device_array<FoundRows>(geometry.slots, what)));
    CROUPIER_TRY(keep(rows_of_, device_array<std::int32_t>(geometry.slots * columns, what)));
    CROUPIER_TRY(keep(found_, device_array<LeanRecord>(1, what)));
    CROUPIER_TRY(keep(found_wants_, device_array<LeanWant>(columns, what)));
    CROUPIER_TRY(keep(found_columns_, device_array<std::uint32_t>(kFoundCounts + 2 * columns, what)));
    CROUPIER_TRY(keep(found_sent_, device_array<SentPlace>(places, what)));
    LeanRecord* records = nullptr;
    LeanWant* wants = nullptr;
    SentPlace* sent = nullptr;
    CROUPIER_TRY(keep(records, device_pointer(records_.get(), what)));
    CROUPIER_TRY(keep(wants, device_pointer(wants_.get(), what)));
    CROUPIER_TRY(keep(sent, device_pointer(sent_.get(), what)));
    ring_.records = records;
    ring_.wants = wants;
    ring_.sent = sent;
    ring_.told = told_.get();
    ring_.rows = rows_.get();
    ring_.rows_of = rows_of_.get();
    std::uint32_t* const counts = found_columns_.get();
    std::uint32_t* const whole = counts + kFoundCounts;
    ring_.step = {found_.get(), found_wants_.get(), counts, whole, whole + columns, found_sent_.get()};
    ring_.places = geometry.slots;
    ring_.max_batch = geometry.max_batch;
    return true;
}

shm::Result<bool> LeanReplays::prepare(LeanRecord record, std::span<const LeanWant> wants,
                                       std::span<const SentPlace> sent, cudaStream_t preparing) {
    const std::size_t place = record.ticket % ring_.places;
    forget(record.ticket);
    std::atomic_thread_fence(std::memory_order_release);
    if (preparing != nullptr) {
        record.told = record.opening;
        // An error that somebody else left is not this launch's.
        (void)cudaGetLastError();
        CROUPIER_TRY(cuda_done(launch_tell(told_.get() + record.slot, record.told, preparing),
                               "cannot prepare a step for a CUDA graph's replay"));
    }
    std::copy(wants.begin(), wants.end(), wants_.get() + place * ring_.max_batch);
    std::copy(sent.begin(), sent.end(), sent_.get() + place * room_for_places(ring_.max_batch));
    record.ticket = 0;
    records_[place] = record;
    return true;
}

// Last: a replay that runs now finds all of the record or none.
void LeanReplays::publish(std::uint64_t ticket) {
    std::atomic_ref(records_[ticket % ring_.places].ticket).store(ticket, std::memory_order_release);
}

void LeanReplays::forget(std::uint64_t ticket) {
    std::atomic_ref(records_[ticket % ring_.places].ticket).store(0, std::memory_order_release);
}

}  // namespace croupier::gpu_writer
