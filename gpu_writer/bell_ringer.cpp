#include "gpu_writer/bell_ringer.h"

#include <sys/prctl.h>

#include "shm/bell.h"

namespace croupier::gpu_writer {
namespace {

// It rings for samplers that sleep, and a spinning thread beside samplers that do not would take a core from
// them: on a host whose cores are all given away that cost a time slice now and then.
constexpr shm::WaitSettings kPatience{shm::WaitMode::sleep, {}, std::chrono::microseconds(20)};

}  // namespace

BellRinger::BellRinger(proto::SegmentHeader& header, std::size_t most)
    : header_(header), patience_(kPatience) {
    watched_.reserve(most);
    thread_ = std::thread([this] { serve(); });
}

BellRinger::~BellRinger() {
    {
        const std::lock_guard lock(mutex_);
        over_ = true;
    }
    more_.notify_one();
    thread_.join();
}

void BellRinger::watch(const WatchedSlice& slice) {
    {
        const std::lock_guard lock(mutex_);
        watched_.push_back(slice);
    }
    more_.notify_one();
}

void BellRinger::forget_all() {
    const std::lock_guard lock(mutex_);
    watched_.clear();
    rung_for_first_ = false;
}

bool BellRinger::look() {
    const WatchedSlice& oldest = watched_.front();
    // Samplers that were awake have decided it, and its word may be the slot's next step's already.
    if (oldest.step < header_.taken.load(std::memory_order_acquire)) {
        rung_for_first_ = false;
        watched_.erase(watched_.begin());
        return true;
    }
    // acquire: a sampler that this ring wakes sees at least what is seen here.
    const auto ready = proto::ReadyWord::unpack(oldest.ready->load(std::memory_order_acquire));
    const bool begun = ready.epoch == oldest.complete.epoch && ready.step_tag == oldest.complete.step_tag;
    if (!begun || (ready.tiles < oldest.complete.tiles && rung_for_first_)) return false;
    rung_for_first_ = ready.tiles < oldest.complete.tiles;
    shm::ring(header_.bell);
    if (!rung_for_first_) watched_.erase(watched_.begin());
    return true;
}

void BellRinger::serve() {
    // The kernel's default slack of 50 us would more than double each sleep.
    ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    std::unique_lock lock(mutex_);
    while (true) {
        more_.wait(lock, [this] { return over_ || !watched_.empty(); });
        if (over_) return;
        const bool found = look();
        lock.unlock();
        patience_.idle(found ? 1 : 0,
                       [](std::chrono::nanoseconds longest) { std::this_thread::sleep_for(longest); });
        lock.lock();
    }
}

}  // namespace croupier::gpu_writer
