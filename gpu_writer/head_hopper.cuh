// Hopper's barriers and copy engine: one PTX instruction for each function.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace croupier::gpu_writer::head {

__device__ inline std::uint32_t shared_address(const void* at) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}

__device__ inline void init_barrier(std::uint32_t barrier, std::uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// The copy engine must see initialised barriers.
__device__ inline void publish_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void expect_bytes(std::uint32_t barrier, std::uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}
__device__ inline void arrive(std::uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline bool has_completed(std::uint32_t barrier, std::uint32_t parity) {
    std::uint32_t done;
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
        "selp.u32 %0, 1, 0, done;\n"
        "}\n"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
    return done != 0;
}
// A barrier that nobody completes would hang the GPU: after about ten seconds the kernel fails instead.
__device__ inline void wait(std::uint32_t barrier, std::uint32_t parity) {
    constexpr long long kMostClocks = 20'000'000'000;
    if (has_completed(barrier, parity)) return;
    const long long since = clock64();
    while (!has_completed(barrier, parity)) {
        if (clock64() - since > kMostClocks) __trap();
    }
}

// By so many threads, in whole warps.
__device__ inline void synchronize_threads(std::uint32_t barrier, std::uint32_t threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// How the L2 cache is to treat what is copied.
enum class CachePolicy : std::uint64_t { evict_first = 0x12F0000000000000, evict_last = 0x14F0000000000000 };

// Copies the map's box whose first element is at (x, y), and counts its bytes at the barrier.
__device__ inline void copy_box(std::uint32_t to, const CUtensorMap& map, std::int32_t x, std::int32_t y,
                                std::uint32_t barrier, CachePolicy policy) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
        " [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
        "l"(&map), "r"(barrier), "r"(x), "r"(y), "l"(policy)
        : "memory");
}
// 16 bytes by a thread itself, or zeros. Waits count groups of copies.
__device__ inline void copy_16(std::uint32_t to, const void* from, bool is_there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(is_there ? 16U : 0U)
                 : "memory");
}
__device__ inline void end_copy_group() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kUnderWay>
__device__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kUnderWay) : "memory");
}
// What this thread has stored in shared memory is there for the tensor cores.
__device__ inline void show_stores_to_tensor_cores() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

template <std::uint32_t kCount>
__device__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <std::uint32_t kCount>
__device__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

}  // namespace croupier::gpu_writer::head
