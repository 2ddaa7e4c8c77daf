// What runs kernels here finds what a GPU would not forgive.
#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "tests/gpu_kernels/emulated/cuda_runtime_api.h"

using namespace croupier::testing;

TEST_CASE("threads of a block see behind a barrier what all of them wrote before it") {
    std::vector<std::uint32_t> of(256);
    std::uint32_t wrong = 0;
    gpu::run_grid(3, 2, 256, [&] {
        of[threadIdx.x] = blockIdx.x * 1000 + blockIdx.y * 10000 + threadIdx.x;
        __syncthreads();
        const std::uint32_t other = 255 - threadIdx.x;
        if (of[other] != blockIdx.x * 1000 + blockIdx.y * 10000 + other) ++wrong;
        __syncthreads();
    });
    CHECK(wrong == 0);
}

TEST_CASE("a barrier that is missing shows") {
    std::vector<std::uint32_t> of(256);
    std::uint32_t early = 0;
    gpu::run_grid(1, 1, 256, [&] {
        of[threadIdx.x] = 1;
        if (of[255 - threadIdx.x] == 0) ++early;
    });
    CHECK(early > 0);
}

TEST_CASE("threads of a block learn whether it holds for one of them") {
    std::uint32_t wrong = 0;
    gpu::run_grid(2, 1, 96, [&] {
        if (__syncthreads_or(threadIdx.x == 70) == 0) ++wrong;
        if (__syncthreads_or(0) != 0) ++wrong;
        __syncthreads();
        if (__syncthreads_or(blockIdx.x == 1) != static_cast<int>(blockIdx.x)) ++wrong;
    });
    CHECK(wrong == 0);
}

TEST_CASE("lanes exchange what each of them brings") {
    std::uint32_t wrong = 0;
    gpu::run_grid(1, 1, 64, [&] {
        const std::uint32_t lane = threadIdx.x % 32;
        const std::uint32_t warp = threadIdx.x / 32;
        if (__shfl_xor_sync(~0U, threadIdx.x, 5) != warp * 32 + (lane ^ 5U)) ++wrong;
        if (__shfl_up_sync(~0U, lane, 3U) != (lane < 3 ? lane : lane - 3)) ++wrong;
        if (__ballot_sync(~0U, lane % 3 == 0) != 0x49249249U) ++wrong;
        if (__reduce_max_sync(~0U, threadIdx.x) != warp * 32 + 31) ++wrong;
        if (__reduce_add_sync(~0U, threadIdx.x) != 32 * (warp * 32) + 31 * 16) ++wrong;
    });
    CHECK(wrong == 0);
}

TEST_CASE("threads that wait for others in vain are told of") {
    CHECK_THROWS_WITH(gpu::run_grid(1, 1, 64,
                                    [] {
                                        if (threadIdx.x != 7) __syncthreads();
                                        if (threadIdx.x == 7) __syncwarp();
                                    }),
                      Catch::Contains("63 of 64 threads"));
    CHECK_THROWS_WITH(gpu::run_grid(1, 1, 32,
                                    [] {
                                        if (threadIdx.x < 16) {
                                            __syncwarp();
                                        } else {
                                            (void)__ballot_sync(~0U, true);
                                        }
                                    }),
                      Catch::Contains("__syncwarp") && Catch::Contains("__ballot_sync"));
}
