// Hopper's tensor cores: 64 rows of the head times 8 to 128 columns of hidden states, 16 elements deep. All
// kernels of the head multiply by these alone and in the same order, which is why their logits are equal.
#pragma once

#include <cstdint>

#include "proto/dtype.h"

namespace croupier::gpu_writer::head {

using proto::Dtype;

// One step of a tile is 128 bytes of each row: the copy engine's widest swizzle.
constexpr std::uint32_t kStepElements = 64;
constexpr std::uint32_t kRowBytes = 128;
constexpr std::uint32_t kDepth = 16;                    // elements of one instruction
constexpr std::uint32_t kDepthUnits = kDepth * 2 / 16;  // in a descriptor's units
constexpr std::uint32_t kInstructions = kStepElements / kDepth;

// Rows of 128 swizzled bytes, 8 rows in each 1,024 bytes, at an address that is a multiple of 1,024.
__device__ inline std::uint64_t matrix_at(std::uint32_t shared) {
    constexpr std::uint64_t kSwizzled128 = std::uint64_t{1} << 62U;
    constexpr std::uint64_t kEightRows = std::uint64_t{1024 / 16} << 32U;
    constexpr std::uint64_t kUnused = std::uint64_t{1} << 16U;
    return kSwizzled128 | kEightRows | kUnused | (shared & 0x3FFFFU) >> 4U;
}

__device__ inline void begin_multiplying() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void end_multiply_group() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kUnderWay>
__device__ void wait_for_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kUnderWay) : "memory");
}
// The compiler must not move reads of the accumulators before the wait, or writes behind the start.
template <std::uint32_t kCount>
__device__ void hold(float (&sums)[kCount]) {
#pragma unroll
    for (std::uint32_t i = 0; i < kCount; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

// sums = head * hidden + (adds ? sums : 0). Of thread t of the warpgroup, element 4 j + 2 h + p is row
// 16 (t / 32) + 8 h + t % 32 / 4 of the 64 and column 8 j + 2 (t % 4) + p.
template <Dtype D, std::uint32_t kColumns>
__device__ void multiply(float (&sums)[kColumns / 2], std::uint64_t head, std::uint64_t hidden,
                         std::uint32_t adds);

// clang-format off
#define CROUPIER_PLACES_4 "%0, %1, %2, %3"
#define CROUPIER_PLACES_8 CROUPIER_PLACES_4 ", %4, %5, %6, %7"
#define CROUPIER_PLACES_16 CROUPIER_PLACES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define CROUPIER_PLACES_32 CROUPIER_PLACES_16 ", %16, %17, %18, %19, %20, %21, %22, %23" \
    ", %24, %25, %26, %27, %28, %29, %30, %31"
#define CROUPIER_PLACES_48 CROUPIER_PLACES_32 \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define CROUPIER_PLACES_64 CROUPIER_PLACES_32 ", %32, %33, %34, %35, %36, %37, %38, %39" \
    ", %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55" \
    ", %56, %57, %58, %59, %60, %61, %62, %63"
#define CROUPIER_SUMS_4(i) "+f"(sums[i]), "+f"(sums[(i) + 1]), "+f"(sums[(i) + 2]), "+f"(sums[(i) + 3])
#define CROUPIER_SUMS_8(i) CROUPIER_SUMS_4(i), CROUPIER_SUMS_4((i) + 4)
#define CROUPIER_SUMS_16(i) CROUPIER_SUMS_8(i), CROUPIER_SUMS_8((i) + 8)
#define CROUPIER_SUMS_32(i) CROUPIER_SUMS_16(i), CROUPIER_SUMS_16((i) + 16)
#define CROUPIER_SUMS_48(i) CROUPIER_SUMS_32(i), CROUPIER_SUMS_16((i) + 32)
#define CROUPIER_SUMS_64(i) CROUPIER_SUMS_32(i), CROUPIER_SUMS_32((i) + 32)
// clang-format on

// `A`, `B` and `C` are the places of the operands behind the sums.
#define CROUPIER_MULTIPLY(DTYPE, TYPE, COLUMNS, SUMS, A, B, C)                                         \
    template <>                                                                                        \
    __device__ inline void multiply<Dtype::DTYPE, COLUMNS>(float(&sums)[SUMS], std::uint64_t head,     \
                                                           std::uint64_t hidden, std::uint32_t adds) { \
        asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" #C                                     \
                     ", 0;\n"                                                                          \
                     "wgmma.mma_async.sync.aligned.m64n" #COLUMNS "k16.f32." TYPE "." TYPE             \
                     " {" CROUPIER_PLACES_##SUMS "}, %" #A ", %" #B ", adds, 1, 1, 0, 0;\n}\n"         \
                     : CROUPIER_SUMS_##SUMS(0)                                                         \
                     : "l"(head), "l"(hidden), "r"(adds));                                             \
    }
#define CROUPIER_MULTIPLY_BOTH(COLUMNS, SUMS, A, B, C)      \
    CROUPIER_MULTIPLY(bf16, "bf16", COLUMNS, SUMS, A, B, C) \
    CROUPIER_MULTIPLY(fp16, "f16", COLUMNS, SUMS, A, B, C)

CROUPIER_MULTIPLY_BOTH(8, 4, 4, 5, 6)
CROUPIER_MULTIPLY_BOTH(16, 8, 8, 9, 10)
CROUPIER_MULTIPLY_BOTH(32, 16, 16, 17, 18)
CROUPIER_MULTIPLY_BOTH(64, 32, 32, 33, 34)
CROUPIER_MULTIPLY_BOTH(96, 48, 48, 49, 50)
CROUPIER_MULTIPLY_BOTH(128, 64, 64, 65, 66)

}  // namespace croupier::gpu_writer::head
