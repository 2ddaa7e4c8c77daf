// What differs from step to step: written by the worker's thread when a step begins, read by the GPU when its
// launch runs. A captured graph holds none of it.
#pragma once

#include <cstdint>

namespace croupier::gpu_writer {

// Addresses are the device's. One cache line, so that a GPU fetches it in one read.
struct alignas(64) LaunchRecord {
    std::uint64_t ticket = 0;  // of the n-th step that was begun: n; 0: none yet
    std::uint64_t word = 0;    // the ready word of no tiles
    std::uint64_t ready = 0;   // where it goes
    std::uint64_t elements = 0;
    std::uint64_t maxima = 0;  // 0: the session has no summaries
    std::uint64_t randoms = 0;
    std::uint64_t randoms_ready = 0;
    std::uint32_t columns = 0;
    std::uint32_t reserved = 0;
};
static_assert(sizeof(LaunchRecord) == 64);

// What a column's randoms are of (proto/philox.h). One unit that a GPU's thread loads in two halves.
struct ColumnSeed {
    std::uint64_t seed = 0;
    std::uint32_t position = 0;  // of the token in prompt and output together
    std::uint32_t child = 0;
};
static_assert(sizeof(ColumnSeed) == 16);

// Written by the GPU, read by the worker's thread; pinned memory, beside the records.
struct alignas(64) LaunchOutcome {
    std::uint64_t finished_ticket = 0;  // of the step that last used the record of the same place
    std::uint64_t reserved[7] = {};
};

}  // namespace croupier::gpu_writer
