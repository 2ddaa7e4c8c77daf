// The samplers of a stand-in: forked from it, watched by it, and gone with it.
#pragma once

#include <sys/mman.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "proto/plane.h"
#include "shm/segment.h"

namespace croupier::daemon {

class StandInSamplers {
  public:
    // `descriptor`: of the segment's file, and open in forked children too.
    StandInSamplers(const shm::Segment& segment, int descriptor, std::uint32_t count,
                    std::chrono::milliseconds patience);
    StandInSamplers(const StandInSamplers&) = delete;
    StandInSamplers& operator=(const StandInSamplers&) = delete;
    ~StandInSamplers();

    // Regularly: frees what dead samplers had claimed and starts others; ends those that stand still.
    void housekeep();

  private:
    struct Child {
        pid_t pid = 0;
        std::uint64_t beat = 0;  // the last one that was seen
        std::uint32_t looks_since = 0;
        std::uint32_t age = 0;    // in looks
        std::uint32_t pause = 0;  // so many looks before the next one is started
        std::uint32_t waited = 0;
    };

    void spawn(std::uint32_t index);
    // Whether it has ended; `status` is how.
    bool ended(std::uint32_t index, bool block, int& status);
    void handle_end(std::uint32_t index, int status);

    struct Unmap {
        void operator()(proto::PlaneHeader* plane) const { ::munmap(plane, sizeof(*plane)); }
    };
    const shm::Segment* segment_;
    int descriptor_;
    std::unique_ptr<proto::PlaneHeader, Unmap> plane_;  // shared with the children
    std::uint32_t longest_silence_;                     // in looks of housekeep()
    std::vector<Child> children_;
    std::uint32_t next_incarnation_ = 1;
};

// How often the stand-in looks after all that it watches.
constexpr std::chrono::milliseconds kStandInLooks{20};

}  // namespace croupier::daemon
