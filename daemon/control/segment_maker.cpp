#include "daemon/control/segment_maker.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "daemon/control/session_admission.h"
#include "host/control_group.h"
#include "shm/session_record.h"

namespace croupier::daemon {
namespace {

using Clock = std::chrono::steady_clock;

// A session that has ended is unmapped by its samplers and its engine some time later, and the kernel may sum
// up what it can drop of a group's memory two seconds late.
constexpr std::chrono::seconds kMemoryPatience{3};
constexpr std::chrono::milliseconds kBetweenLooks{20};

shm::Error too_little_memory(std::uint64_t bytes, const host::MemoryRoom& room) {
    return {shm::Errc::no_memory,
            "the session needs " + std::to_string(bytes) + " bytes, and the control group " + room.group +
                " has " + std::to_string(room.left) + " left of its " + std::to_string(room.limit) +
                ": raise its limit (MemoryMax= in the unit, --memory, resources.limits.memory), or open the "
                "session with a smaller batch, fewer steps in flight or fewer sequences"};
}

}  // namespace

void SegmentMaker::begin(const shm::SegmentSpec& spec, std::shared_ptr<const SessionRequest> request) {
    threads_[spec.session_id] =
        std::jthread([this, spec, request = std::move(request)](const std::stop_token& stop) {
            make(stop, spec, *request);
        });
}

void SegmentMaker::make(const std::stop_token& stop, const shm::SegmentSpec& spec,
                        const SessionRequest& request) {
    Made made{spec.session_id, shm::fail(shm::Errc::no_memory, "")};
    if (auto created = create(spec, stop)) {
        auto segment = std::make_unique<shm::Segment>(std::move(created).value());
        if (!request.order.empty()) write_order(*segment, request.order);
        std::copy(request.token_table.begin(), request.token_table.end(), segment->token_table().begin());
        made.segment = std::move(segment);
    } else {
        made.segment = created.error();
    }
    {
        const std::lock_guard lock(mutex_);
        made_.push_back(std::move(made));
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(event_fd_, &one, sizeof(one));
}

// The kernel ends the whole daemon for memory that its group does not allow, at the first touch of a page.
shm::Result<shm::Segment> SegmentMaker::create(const shm::SegmentSpec& spec, const std::stop_token& stop) {
    // What its client's token logs grow by is charged to the client's group.
    const std::uint64_t bytes = proto::layout_of(spec.geometry).bytes_at_open();
    CROUPIER_TRY(await_memory(bytes, stop));
    auto created = shm::Segment::create(spec, stop);
    {
        const std::lock_guard lock(mutex_);
        promised_bytes_ -= bytes;
    }
    promise_ended_.notify_all();
    return created;
}

shm::Result<bool> SegmentMaker::await_memory(std::uint64_t bytes, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    auto refused_at = Clock::now() + kMemoryPatience;
    while (true) {
        const auto room = host::memory_room({});
        // What is promised may be allocated in part, and is then counted twice: it is waited for, and no
        // reason to refuse.
        if (!room || (room->left >= bytes && room->left - bytes >= promised_bytes_)) break;
        if (stop.stop_requested()) return shm::fail(shm::Errc::draining, "the daemon stops");
        if (promised_bytes_ != 0) refused_at = Clock::now() + kMemoryPatience;
        if (Clock::now() >= refused_at) return too_little_memory(bytes, *room);
        promise_ended_.wait_for(lock, stop, kBetweenLooks, [] { return false; });
    }
    promised_bytes_ += bytes;
    return true;
}

std::vector<SegmentMaker::Made> SegmentMaker::take() {
    std::vector<Made> taken;
    {
        const std::lock_guard lock(mutex_);
        taken.swap(made_);
    }
    for (const Made& made : taken) threads_.erase(made.id);
    return taken;
}

void SegmentMaker::end() {
    for (auto& [id, thread] : threads_) thread.request_stop();
    for (auto& [id, thread] : threads_) thread.join();
    for (const Made& made : take()) {
        if (made.segment) shm::remove_session_files(made.segment.value()->path());
    }
}

void SegmentMaker::let_go(std::unique_ptr<shm::Segment> segment) {
    std::thread([gone = std::move(segment)]() mutable { gone.reset(); }).detach();
}

}  // namespace croupier::daemon
