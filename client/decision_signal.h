// A descriptor that becomes readable when a step of the ring may be decided, for programs that also wait for
// other descriptors. A thread sleeps on the ring's futex and makes the descriptor readable after each wake.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "shm/file.h"
#include "shm/segment.h"

namespace croupier::client {

class DecisionSignal {
  public:
    // `epoch` is that of the client that holds the segment. The segment must outlive this.
    static shm::Result<std::unique_ptr<DecisionSignal>> start(const shm::Segment& segment,
                                                              std::uint32_t epoch);
    DecisionSignal(const DecisionSignal&) = delete;
    DecisionSignal& operator=(const DecisionSignal&) = delete;
    ~DecisionSignal();

    int descriptor() const { return event_.get(); }
    // Call it before you look at the ring: a later decision makes the descriptor readable again.
    void clear() const;

  private:
    DecisionSignal(const shm::Segment& segment, std::uint32_t epoch, shm::FileDescriptor event);
    void listen(std::uint32_t seen) const;
    void make_readable() const;

    const shm::Segment* segment_;
    std::uint32_t epoch_;
    shm::FileDescriptor event_;
    std::atomic<bool> ended_{false};
    std::thread thread_;
};

}  // namespace croupier::client
