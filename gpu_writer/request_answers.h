// Finds what samplers ask for of a rank's lean steps, and has each request answered once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "gpu_writer/watched_step.h"
#include "shm/segment.h"

namespace croupier::gpu_writer {

struct BlockRequest {
    std::uint32_t column = 0;
    std::uint64_t word = 0;               // that answers it, where the rank's answer stands
    std::span<const std::uint64_t> bits;  // of all blocks of the row
};

// The rank's part of a request, of so many blocks from its first one on: bit 0 is the first.
void own_bits(std::span<const std::uint64_t> all, std::uint32_t first_block, std::uint32_t blocks,
              std::span<std::uint64_t> own);

class RequestAnswers {
  public:
    // Lays the rank's part of a request at its place in the slice, and then stores its word, or has that
    // done. False: not now; it is called again.
    using Answer = std::function<bool(const WatchedStep& step, const BlockRequest& request)>;

    RequestAnswers(const shm::Segment& segment, std::uint32_t rank, Answer answer);

    // How many of the step's requests are on their way to their answers since the last look. `at_all`: also
    // where the count of requests has not grown.
    std::size_t look(const WatchedStep& step, bool at_all);
    // What was on its way to the step's samplers will not come: each request is answered once more.
    void repeat(std::uint64_t step);

  private:
    const shm::Segment& segment_;
    std::uint32_t rank_;
    Answer answer_;
    std::vector<std::uint64_t> seen_;  // of each slot's board
    // [slot][column]: the last word of the slot's step, which may be on its way still.
    std::vector<std::uint64_t> answered_;
    std::vector<std::uint64_t> answered_in_;  // by slot: in which step
};

}  // namespace croupier::gpu_writer
