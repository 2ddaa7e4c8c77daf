// A rank's lock falls while its process still ends: the successor waits for the end, not for the lock.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <thread>
#include <vector>

#include "shm/logits_publisher.h"
#include "test_session.h"
#include "testing/child_process.h"
#include "testing/shared_object.h"

using namespace croupier;
using namespace croupier::shm;
using namespace croupier::testing;

namespace {

struct Progress {
    std::atomic<bool> ready{false};
};

FileDescriptor handle_of(const ChildProcess& child) {
    return FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, child.pid(), 0)));
}

bool has_ended(const FileDescriptor& handle) {
    pollfd ended{handle.get(), POLLIN, 0};
    return ::poll(&ended, 1, 0) == 1;
}

void await(const std::atomic<bool>& flag) {
    while (!flag) std::this_thread::yield();
}

// Attaches as soon as the rank's lock is free: 0 when the predecessor had ended by then.
int attach_after(const TestSession& session, const ChildProcess& writer_before) {
    // A handle of its own: a forked child keeps none of its parent's.
    const FileDescriptor predecessor = handle_of(writer_before);
    Segment segment = session.open();
    while (true) {
        const auto writer = LogitsPublisher::attach(segment, 0);
        if (writer) return has_ended(predecessor) ? 0 : 1;
    }
}

}  // namespace

TEST_CASE("a successor waits for the end of a writer whose lock fell before it ended") {
    const TestSession session;
    const Shared<Progress> progress;
    auto predecessor = ChildProcess::start([&] {
        {
            Segment segment = session.open();
            if (!LogitsPublisher::attach(segment, 0)) return 1;
        }
        // The lock is gone, as in the middle of an exit; the process is not.
        progress->ready = true;
        ::raise(SIGSTOP);
        return 0;
    });
    const FileDescriptor handle = handle_of(predecessor);
    REQUIRE(handle.valid());
    await(progress->ready);
    auto successor = ChildProcess::start([&] { return attach_after(session, predecessor); });
    // It has the rank from here on, and must not have finished with it.
    const Segment observer = session.open();
    while (!observer.is_held(writer_role(0)) && !has_ended(handle_of(successor))) std::this_thread::yield();
    predecessor.send(SIGKILL);
    CHECK(successor.wait() == 0);
}

TEST_CASE("a successor finds a killed writer with a large mapping and many descriptors at its end") {
    // As many as the limit of this process allows, within reason.
    constexpr int kDescriptors = 15000;
    constexpr std::size_t kMapped = std::size_t{256} << 20U;
    for (int round = 0; round < 5; ++round) {
        const TestSession session;
        const Shared<Progress> progress;
        auto predecessor = ChildProcess::start([&] {
            for (int i = 0; i < kDescriptors; ++i) {
                if (::open("/dev/null", O_RDONLY) < 0) break;
            }
            void* memory = ::mmap(nullptr, kMapped, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
            if (memory == MAP_FAILED) return 1;
            Segment segment = session.open();
            if (!LogitsPublisher::attach(segment, 0)) return 1;
            progress->ready = true;
            ::raise(SIGSTOP);
            return 0;
        });
        await(progress->ready);
        auto successor = ChildProcess::start([&] { return attach_after(session, predecessor); });
        predecessor.send(SIGKILL);
        CHECK(successor.wait() == 0);
    }
}

TEST_CASE("a successor does not wait for a writer that detached, or for another process with its pid") {
    const TestSession session;
    const Shared<Progress> progress;
    auto living = ChildProcess::start([&] {
        {
            Segment segment = session.open();
            const auto writer = LogitsPublisher::attach(segment, 0);
            if (!writer) return 1;
            writer.value().leave();
        }
        progress->ready = true;
        ::raise(SIGSTOP);
        return 0;
    });
    REQUIRE(living.wait_until_stopped());
    Segment segment = session.open();
    REQUIRE(LogitsPublisher::attach(segment, 0));
    segment.release(writer_role(0));
    // The number of a process that lives and that was started at another time.
    auto& cell = segment.header().writers[0];
    cell.pid = living.pid();
    cell.started = 1;
    CHECK(LogitsPublisher::attach(segment, 0));
}
