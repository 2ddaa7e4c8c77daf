// Rings the samplers' bell for a GPU, whose stores wake nobody: a thread that watches the ready words of the
// steps that were begun (docs/decisions/0008-gpu-writer.md says why it is no host function of the stream).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "proto/logits_slot.h"
#include "proto/segment_header.h"
#include "shm/wait_strategy.h"

namespace croupier::gpu_writer {

struct WatchedSlice {
    std::uint64_t step = 0;
    const std::atomic<std::uint64_t>* ready = nullptr;
    proto::ReadyWord complete;
};

class BellRinger {
  public:
    // `most`: as many slices of the session are watched at a time.
    BellRinger(proto::SegmentHeader& header, std::size_t most);
    BellRinger(const BellRinger&) = delete;
    BellRinger& operator=(const BellRinger&) = delete;
    ~BellRinger();

    void watch(const WatchedSlice& slice);
    void forget_all();

  private:
    void serve();
    // Rings for the first tiles, so that the samplers are awake when the last land, and for the last.
    bool look();

    proto::SegmentHeader& header_;
    shm::WaitStrategy patience_;
    std::mutex mutex_;
    std::condition_variable more_;
    std::vector<WatchedSlice> watched_;  // the oldest first
    bool rung_for_first_ = false;
    bool over_ = false;
    std::thread thread_;
};

}  // namespace croupier::gpu_writer
