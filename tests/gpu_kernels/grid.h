// Runs a CUDA kernel's threads on this CPU, as fibers: where the threads of a block wait for each other is as
// on a GPU, which of them goes on first is drawn by lot, so that a barrier that is missing shows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace croupier::testing::gpu {

constexpr std::uint32_t kWarpLanes = 32;

// A kernel's blocks one after another, each of `threads` threads. Throws where threads wait for others that
// never come, as on a GPU they would for ever.
void run_grid(std::uint32_t columns, std::uint32_t rows, std::uint32_t threads,
              const std::function<void()>& kernel);

// What each lane of this thread's warp brings to the same call, once all have: `call` tells calls apart.
using Brought = std::array<std::uint64_t, kWarpLanes>;
const Brought& all_lanes(const char* call, std::uint64_t own);
// Whether one of the block's threads brings true, once all are there.
bool await_block(bool own);

// So many bytes, which each block finds spoilt when it begins.
constexpr std::size_t kSharedBytes = std::size_t{96} * 1024;
void* shared_memory();

}  // namespace croupier::testing::gpu
