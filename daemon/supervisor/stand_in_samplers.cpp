#include "daemon/supervisor/stand_in_samplers.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <new>
#include <system_error>
#include <thread>

#include "daemon/control/dead_claims.h"
#include "daemon/worker/sampler_end.h"
#include "daemon/worker/session_view.h"
#include "daemon/worker/step_worker.h"
#include "event_log/event_log.h"
#include "shm/clock.h"
#include "shm/wait_strategy.h"

namespace croupier::daemon {
namespace {

using event_log::Event;

// As of a daemon that is configured with nothing else. It takes no bell: the bell is the daemons', and each
// of its sleepers has a place there.
constexpr shm::WaitSettings kWait{shm::WaitMode::adaptive, std::chrono::microseconds(50),
                                  std::chrono::microseconds(200)};
constexpr std::uint64_t kStateBytes = std::uint64_t{512} << 20U;
// A sampler that was told to end does so within a slice and a column; one that hangs is not waited for.
constexpr std::chrono::seconds kEndPatience{1};
constexpr std::uint64_t kSliceNs = 1'000'000;
// In looks: what dies at once is not started again at once.
constexpr std::uint32_t kLooksOfALongLife = 50;
constexpr std::uint32_t kLongestPause = 50;

// The stand-in reads its own from a descriptor, and has them blocked.
void let_signals_in() {
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

shm::Result<std::unique_ptr<SessionView>> view_of(int descriptor, proto::StateTotals& totals) {
    CROUPIER_TRY_VALUE(segment, shm::Segment::attach(descriptor, shm::Access::read_write));
    return SessionView::make(std::move(segment), 1, totals);
}

int decide_until_told(int descriptor, proto::PlaneHeader& plane, std::uint32_t index) {
    proto::SamplerEntry& entry = plane.samplers[index];
    auto attached = view_of(descriptor, entry.states);
    if (!attached) {
        event_log::write(Event::session_not_served,
                         {{"sampler", index}, {"segment", shm::path_of(descriptor)}},
                         "stand-in, sampler {}: {}", index, attached.error().message);
        return 1;
    }
    SessionView& session = *attached.value();
    // Nobody could read what it kept: its plane has no name.
    StepWorker worker(plane, {shm::JournalWriter()}, index, 1, -1);
    worker.make_room(session);
    shm::WaitStrategy wait(kWait);
    std::array<SequenceStates*, 1> states = {&session.states()};
    while (!sampler_is_told_to_end() && !session.segment().mapping().lost()) {
        const Look look = worker.look(session, kSliceNs);
        std::size_t decided = look.decided + (look.busy ? 1 : 0);
        if (look.suspect && worker.decide_suspect(session)) ++decided;
        if (entry.states.bytes.load(std::memory_order_relaxed) > kStateBytes) {
            drop_least_recent(states, kStateBytes);
        }
        wait.idle(decided, [&](std::chrono::nanoseconds longest) {
            entry.heartbeat_ns.store(shm::monotonic_ns(), std::memory_order_relaxed);
            std::this_thread::sleep_for(longest);
        });
    }
    return 0;
}

proto::PlaneHeader* shared_plane() {
    void* memory = ::mmap(nullptr, sizeof(proto::PlaneHeader), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    return new (memory) proto::PlaneHeader{};
}

}  // namespace

StandInSamplers::StandInSamplers(const shm::Segment& segment, int descriptor, std::uint32_t count,
                                 std::chrono::milliseconds patience)
    : segment_(&segment),
      descriptor_(descriptor),
      plane_(shared_plane()),
      longest_silence_(static_cast<std::uint32_t>(patience / kStandInLooks) + 1),
      children_(count) {
    plane_->sampler_count = count;
    for (std::uint32_t index = 0; index < count; ++index) spawn(index);
}

StandInSamplers::~StandInSamplers() {
    for (const Child& child : children_) {
        if (child.pid != 0) ::kill(child.pid, kEndSampler);
    }
    const auto deadline = std::chrono::steady_clock::now() + kEndPatience;
    int status = 0;
    for (std::uint32_t index = 0; index < children_.size(); ++index) {
        if (children_[index].pid == 0) continue;
        while (!ended(index, false, status) && std::chrono::steady_clock::now() < deadline) {
            // A child's end can only be looked at without a handler of its signal.
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        if (children_[index].pid == 0) continue;
        ::kill(children_[index].pid, SIGKILL);
        ended(index, true, status);
    }
    // What one had claimed that was killed here is no column's fault.
    reopen_all_claims(*segment_);
}

void StandInSamplers::spawn(std::uint32_t index) {
    proto::SamplerEntry& entry = plane_->samplers[index];
    entry.incarnation.store(next_incarnation_++, std::memory_order_release);
    entry.states.bytes.store(0, std::memory_order_relaxed);
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) {
        const std::string why = ::strerror(errno);
        event_log::write(Event::sampler_not_started, {{"sampler", index}, {"reason", why}},
                         "stand-in: cannot start sampler {}: {}; trying again", index, why);
        children_[index].pause = std::min(2 * children_[index].pause + 1, kLongestPause);
        children_[index].waited = 0;
        return;
    }
    if (pid == 0) {
        end_as_samplers_do(parent);
        let_signals_in();
        int status = 1;
        try {
            status = decide_until_told(descriptor_, *plane_, index);
        } catch (const std::exception& failure) {
            event_log::write(Event::sampler_failed, {{"sampler", index}, {"reason", failure.what()}},
                             "stand-in, sampler {}: {}", index, failure.what());
        }
        // Not exit(): what the parent registered for its end is the parent's.
        ::_exit(status);
    }
    Child& child = children_[index];
    child = {pid, entry.heartbeat_ns.load(std::memory_order_relaxed), 0, 0, child.pause, 0};
}

bool StandInSamplers::ended(std::uint32_t index, bool block, int& status) {
    Child& child = children_[index];
    if (::waitpid(child.pid, &status, block ? 0 : WNOHANG) != child.pid) return false;
    child.pid = 0;
    return true;
}

void StandInSamplers::handle_end(std::uint32_t index, int status) {
    Child& child = children_[index];
    proto::SamplerEntry& entry = plane_->samplers[index];
    const std::array<const shm::Segment*, 1> session = {segment_};
    reopen_claims(session, entry.incarnation.load(std::memory_order_relaxed), entry.prepares);
    entry.prepares.session_id.store(0, std::memory_order_relaxed);
    child.pause = child.age < kLooksOfALongLife ? std::min(2 * child.pause + 1, kLongestPause) : 0;
    child.waited = 0;
    const std::string how = described_end(status);
    event_log::write(Event::sampler_lost, {{"sampler", index}, {"reason", how}},
                     "stand-in, sampler {}: it {}", index, how);
}

void StandInSamplers::housekeep() {
    for (std::uint32_t index = 0; index < children_.size(); ++index) {
        Child& child = children_[index];
        int status = 0;
        if (child.pid != 0 && ended(index, false, status)) handle_end(index, status);
        if (child.pid == 0) {
            if (child.waited++ >= child.pause) spawn(index);
            continue;
        }
        ++child.age;
        const std::uint64_t beat = plane_->samplers[index].heartbeat_ns.load(std::memory_order_relaxed);
        child.looks_since = beat == child.beat ? child.looks_since + 1 : 0;
        child.beat = beat;
        if (child.looks_since < longest_silence_) continue;
        event_log::write(Event::sampler_hung, {{"sampler", index}, {"sampler_pid", child.pid}},
                         "stand-in: sampler {} (pid {}) sent no heartbeat: killing it", index, child.pid);
        ::kill(child.pid, SIGKILL);
        child.looks_since = 0;
    }
}

}  // namespace croupier::daemon
