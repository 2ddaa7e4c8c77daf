// Which process it is, told apart from a later one with the same number; and whether it has ended.
#pragma once

#include <chrono>
#include <cstdint>

namespace croupier::shm {

struct ProcessIdentity {
    std::int32_t pid = 0;
    std::uint64_t started = 0;        // in clock ticks since boot
    std::uint64_t pid_namespace = 0;  // numbers of different namespaces say nothing to each other; 0: unknown
};

ProcessIdentity this_process();

// Waits until the process has ended: its address space is gone then, and every descriptor is closed, a
// driver's among them. False when it still runs after `patience`. True at once for this process itself, and
// for one whose number means nothing here.
bool await_end(const ProcessIdentity& process, std::chrono::milliseconds patience);

}  // namespace croupier::shm
