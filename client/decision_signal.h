// A descriptor that becomes readable when a step of the ring may have been decided: for schedulers that wait
// for other things too. A thread sleeps on the ring's bell and passes each ring on.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "shm/file.h"
#include "shm/segment.h"

namespace croupier::client {

class DecisionSignal {
  public:
    // `epoch`: of the client that holds the segment, which must outlive this.
    static shm::Result<std::unique_ptr<DecisionSignal>> start(const shm::Segment& segment,
                                                              std::uint32_t epoch);
    DecisionSignal(const DecisionSignal&) = delete;
    DecisionSignal& operator=(const DecisionSignal&) = delete;
    ~DecisionSignal();

    int descriptor() const { return event_.get(); }
    // Before a look at the ring: what is decided after that makes it readable again.
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
