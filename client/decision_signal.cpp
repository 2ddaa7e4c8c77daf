#include "client/decision_signal.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "shm/futex.h"

namespace croupier::client {
namespace {

// Bounds the delay of the destructor if the thread misses its wake.
constexpr std::chrono::milliseconds kLook{100};

}  // namespace

shm::Result<std::unique_ptr<DecisionSignal>> DecisionSignal::start(const shm::Segment& segment,
                                                                   std::uint32_t epoch) {
    shm::FileDescriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (event.get() < 0) return shm::system_failure("cannot make a descriptor for", segment.path(), errno);
    return std::unique_ptr<DecisionSignal>(new DecisionSignal(segment, epoch, std::move(event)));
}

DecisionSignal::DecisionSignal(const shm::Segment& segment, std::uint32_t epoch, shm::FileDescriptor event)
    : segment_(&segment), epoch_(epoch), event_(std::move(event)) {
    auto& header = segment.header();
    // SYNC: seq_cst; pairs with StepClaims::announce. From here on each decided step wakes the thread.
    header.client_listens.store(epoch, std::memory_order_seq_cst);
    const std::uint32_t seen = header.decided_bell.load(std::memory_order_seq_cst);
    // The engine's own threads handle its signals.
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this, seen] { listen(seen); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    // A step may be decided already.
    make_readable();
}

DecisionSignal::~DecisionSignal() {
    ended_.store(true, std::memory_order_release);
    auto& header = segment_->header();
    // Another client may have fenced this one and listen itself.
    std::uint32_t ours = epoch_;
    header.client_listens.compare_exchange_strong(ours, 0, std::memory_order_relaxed);
    shm::futex_wake_all(header.decided_bell);
    thread_.join();
}

void DecisionSignal::listen(std::uint32_t seen) const {
    const auto& bell = segment_->header().decided_bell;
    while (!ended_.load(std::memory_order_acquire)) {
        shm::futex_wait(bell, seen, kLook);
        const std::uint32_t rung = bell.load(std::memory_order_acquire);
        if (rung == seen) continue;
        seen = rung;
        make_readable();
    }
}

void DecisionSignal::make_readable() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(event_.get(), &one, sizeof(one));
}

void DecisionSignal::clear() const {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto cleared = ::read(event_.get(), &count, sizeof(count));
}

}  // namespace croupier::client
