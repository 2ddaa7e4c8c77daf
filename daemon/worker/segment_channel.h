// The segments of all sessions, as descriptors, from the supervisor to its samplers: a segment's path would
// be read by every user in a process's arguments, and its file may lose its name while the session lives.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "shm/segment.h"

namespace croupier::daemon {

// The supervisor's side. What is sent is an open file without locks: a sampler that outlives the supervisor
// holds none of its locks.
class SegmentChannel {
  public:
    explicit SegmentChannel(std::uint32_t samplers) : lines_(samplers) {}

    // To every sampler that is there, and to each that is connected later.
    shm::Result<bool> offer(const shm::Segment& segment);
    void withdraw(std::uint64_t session_id);
    // A new line to a sampler, with all segments on it; the sampler's end, for its process to inherit.
    shm::Result<shm::FileDescriptor> connect(std::uint32_t sampler);
    // Sends what found no room before, which a sampler that stands still leaves. True: something was sent.
    bool catch_up();

  private:
    struct Line {
        shm::FileDescriptor end;
        std::set<std::uint64_t> owed;
    };
    bool send_owed(Line& line);

    std::vector<Line> lines_;
    std::map<std::uint64_t, shm::FileDescriptor> segments_;
};

struct ReceivedSegment {
    std::uint64_t session_id = 0;
    shm::FileDescriptor file;
};
// The sampler's side: the next one that has come; nothing: there is none now.
std::optional<ReceivedSegment> receive_segment(int line);

}  // namespace croupier::daemon
