// The queue of block requests in this process' memory: streams and events that are always done, and a kernel
// that is launched and does not run.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gpu_writer/request_queue.h"

namespace croupier::testing {

struct QueueLaunch {
    std::uint64_t pass = 0;
    cudaStream_t stream = nullptr;
};

struct QueueLaunches {
    std::vector<QueueLaunch> done;
    int to_fail = 0;  // of the next ones
};

// Of the queue that was made last.
QueueLaunches& queue_launches();
std::unique_ptr<gpu_writer::RequestQueue> make_emulated_queue();
// As the kernel finds it.
std::uint64_t queue_word();
// As the kernel of the last launch does once the entry is laid.
void take_entry(std::uint32_t entry);

}  // namespace croupier::testing
