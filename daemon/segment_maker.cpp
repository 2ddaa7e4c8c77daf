#include "daemon/segment_maker.h"

#include <unistd.h>

#include <utility>

#include "daemon/session_admission.h"
#include "shm/session_record.h"

namespace croupier::daemon {

void SegmentMaker::begin(const shm::SegmentSpec& spec, std::vector<std::uint32_t> order) {
    threads_[spec.session_id] = std::jthread(
        [this, spec, order = std::move(order)](const std::stop_token& stop) { make(stop, spec, order); });
}

void SegmentMaker::make(const std::stop_token& stop, const shm::SegmentSpec& spec,
                        const std::vector<std::uint32_t>& order) {
    Made made{spec.session_id, shm::fail(shm::Errc::no_memory, "")};
    auto created = shm::Segment::create(spec, stop);
    if (!created && created.error().code == shm::Errc::no_memory && spec.geometry.offered_lean_blocks != 0) {
        // Nobody is refused for the room of an offer.
        shm::SegmentSpec rows = spec;
        rows.geometry.offered_lean_blocks = 0;
        created = shm::Segment::create(rows, stop);
    }
    if (created) {
        auto segment = std::make_unique<shm::Segment>(std::move(created).value());
        if (!order.empty()) write_order(*segment, order);
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
