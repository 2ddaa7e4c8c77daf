#include <cuda_bf16.h>

#include "bench/lean/gpu.h"
#include "bench/writer/gpu.h"
#include "proto/philox.h"

namespace croupier::bench::lean {
namespace {

using writer::need_cuda;

constexpr std::uint32_t kThreads = 256;

__global__ void make_logits(__nv_bfloat16* to, std::uint64_t count) {
    constexpr float kSpread = 2.5F;
    const std::uint64_t step = std::uint64_t{gridDim.x} * kThreads;
    for (std::uint64_t i = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
        const auto words = proto::philox4x32_10(
            {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32U), 0, 0}, {1, 2});
        const float radius = sqrtf(-2.0F * logf((static_cast<float>(words[0]) + 0.5F) * 0x1p-32F));
        to[i] = __float2bfloat16(kSpread * radius * cospif(static_cast<float>(words[1]) * 0x1p-31F));
    }
}

__global__ void raise_flag(volatile std::uint64_t* flag, std::uint64_t value) {
    *flag = value;
}

}  // namespace

void fill_logits(void* to, std::uint64_t count) {
    make_logits<<<1024, kThreads>>>(static_cast<__nv_bfloat16*>(to), count);
    need_cuda(cudaGetLastError(), "cannot launch the filling of logits");
    need_cuda(cudaDeviceSynchronize(), "cannot fill logits");
}

void launch_flag(std::uint64_t* flag, std::uint64_t value, cudaStream_t stream) {
    raise_flag<<<1, 1, 0, stream>>>(flag, value);
    need_cuda(cudaGetLastError(), "cannot launch a flag");
}

}  // namespace croupier::bench::lean
