// Segments made beside the supervisor's loop: to allocate a gigabyte takes half a second, in which samplers
// die too.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "shm/segment.h"

namespace croupier::daemon {

struct SessionRequest;

class SegmentMaker {
  public:
    struct Made {
        std::uint64_t id = 0;
        shm::Result<std::unique_ptr<shm::Segment>> segment;
    };

    // `event_fd` is written to whenever one is made, or could not be.
    explicit SegmentMaker(int event_fd) : event_fd_(event_fd) {}

    // The request has what its client gave for the segment: a hotness order, a table of tokens.
    void begin(const shm::SegmentSpec& spec, std::shared_ptr<const SessionRequest> request);
    std::vector<Made> take();
    // Nobody is told any more of what is being made: it goes.
    void end();
    // Frees its memory beside the loop too.
    static void let_go(std::unique_ptr<shm::Segment> segment);

  private:
    void make(const std::stop_token& stop, const shm::SegmentSpec& spec, const SessionRequest& request);
    shm::Result<shm::Segment> create(const shm::SegmentSpec& spec, const std::stop_token& stop);
    // Waits until the daemon's control group has that much memory left, and promises it.
    shm::Result<bool> await_memory(std::uint64_t bytes, const std::stop_token& stop);

    int event_fd_;
    std::mutex mutex_;
    std::uint64_t promised_bytes_ = 0;  // to segments that are being made
    std::condition_variable_any promise_ended_;
    std::vector<Made> made_;
    // By session; each is joined when its segment is taken, and told to stop when this object goes.
    std::map<std::uint64_t, std::jthread> threads_;
};

}  // namespace croupier::daemon
