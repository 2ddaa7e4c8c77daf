#include <cuda_bf16.h>
#include <mma.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <vector>

#include "bench/writer/gpu.h"

namespace croupier::bench::writer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSize = 4096;
constexpr int kTile = 128;  // of C, per block
constexpr int kDepth = 32;  // of K, per iteration
constexpr int kPitch = kDepth + 8;
constexpr int kThreads = 256;

__device__ void fetch_tile(const __nv_bfloat16* from, __nv_bfloat16 (*to)[kPitch]) {
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth / 8; i += kThreads) {
        const int row = i / (kDepth / 8);
        const int column = i % (kDepth / 8) * 8;
        *reinterpret_cast<uint4*>(&to[row][column]) =
            *reinterpret_cast<const uint4*>(from + static_cast<std::size_t>(row) * kSize + column);
    }
}

// C = A * B^T, all square; each of eight warps computes 32 x 64 of the block's tile.
__global__ void __launch_bounds__(kThreads)
    multiply(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c) {
    namespace wmma = nvcuda::wmma;
    __shared__ __nv_bfloat16 rows[kTile][kPitch];
    __shared__ __nv_bfloat16 columns[kTile][kPitch];
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int row = warp / 2 * 32;
    const int column = warp % 2 * 64;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[2][4];
    for (auto& each : sums) {
        for (auto& sum : each) wmma::fill_fragment(sum, 0.0F);
    }
    const __nv_bfloat16* a_rows = a + static_cast<std::size_t>(blockIdx.y) * kTile * kSize;
    const __nv_bfloat16* b_rows = b + static_cast<std::size_t>(blockIdx.x) * kTile * kSize;
    for (int depth = 0; depth < kSize; depth += kDepth) {
        fetch_tile(a_rows + depth, rows);
        fetch_tile(b_rows + depth, columns);
        __syncthreads();
        for (int k = 0; k < kDepth; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> left[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> right[4];
            for (int i = 0; i < 2; ++i) wmma::load_matrix_sync(left[i], &rows[row + i * 16][k], kPitch);
            for (int i = 0; i < 4; ++i)
                wmma::load_matrix_sync(right[i], &columns[column + i * 16][k], kPitch);
            for (int i = 0; i < 2; ++i) {
                for (int j = 0; j < 4; ++j) wmma::mma_sync(sums[i][j], left[i], right[j], sums[i][j]);
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 4; ++j) {
            const std::size_t at =
                (static_cast<std::size_t>(blockIdx.y) * kTile + static_cast<std::size_t>(row + i * 16)) *
                    kSize +
                static_cast<std::size_t>(blockIdx.x) * kTile + static_cast<std::size_t>(column + j * 16);
            wmma::store_matrix_sync(c + at, sums[i][j], kSize, wmma::mem_row_major);
        }
    }
}

__global__ void raise_flag(volatile std::uint64_t* flag, std::uint64_t value) {
    *flag = value;
}

}  // namespace

void need_cuda(cudaError_t status, const char* what) {
    if (status != cudaSuccess)
        throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

std::string gpu_name(int device) {
    cudaDeviceProp properties{};
    need_cuda(cudaGetDeviceProperties(&properties, device),
              "no CUDA device: run this on a GPU host, as bench/gpu/run_all.sh does");
    return properties.name;
}

GpuStream::GpuStream() {
    need_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cannot create a stream");
}

GpuStream::~GpuStream() {
    (void)cudaStreamDestroy(stream_);
}

void GpuStream::synchronise() const {
    need_cuda(cudaStreamSynchronize(stream_), "a stream failed");
}

GpuBuffer::GpuBuffer(std::size_t bytes) {
    need_cuda(cudaMalloc(&memory_, bytes), "cannot allocate GPU memory");
    // Any small bf16 numbers.
    need_cuda(cudaMemset(memory_, 0x3C, bytes), "cannot fill GPU memory");
    need_cuda(cudaDeviceSynchronize(), "cannot fill GPU memory");
}

GpuBuffer::~GpuBuffer() {
    (void)cudaFree(memory_);
}

MatmulLoad::MatmulLoad()
    : a_(std::size_t{kSize} * kSize * sizeof(__nv_bfloat16)),
      b_(std::size_t{kSize} * kSize * sizeof(__nv_bfloat16)),
      c_(std::size_t{kSize} * kSize * sizeof(float)) {
    need_cuda(cudaEventCreate(&begun_), "cannot create an event");
    need_cuda(cudaEventCreate(&ended_), "cannot create an event");
}

void MatmulLoad::start(std::uint32_t products) {
    need_cuda(cudaEventRecord(begun_, stream_.get()), "cannot time the products");
    for (std::uint32_t i = 0; i < products; ++i) {
        multiply<<<dim3(kSize / kTile, kSize / kTile), kThreads, 0, stream_.get()>>>(
            static_cast<const __nv_bfloat16*>(a_.get()), static_cast<const __nv_bfloat16*>(b_.get()),
            static_cast<float*>(c_.get()));
    }
    need_cuda(cudaGetLastError(), "cannot launch the products");
    need_cuda(cudaEventRecord(ended_, stream_.get()), "cannot time the products");
}

bool MatmulLoad::finished() const {
    const cudaError_t status = cudaEventQuery(ended_);
    if (status == cudaErrorNotReady) return false;
    need_cuda(status, "the products failed");
    return true;
}

double MatmulLoad::seconds() const {
    float milliseconds = 0;
    need_cuda(cudaEventElapsedTime(&milliseconds, begun_, ended_), "cannot time the products");
    return static_cast<double>(milliseconds) * 1e-3;
}

double launch_to_flag_seconds() {
    const GpuStream stream;
    std::uint64_t* flag = nullptr;
    need_cuda(cudaHostAlloc(&flag, sizeof(*flag), cudaHostAllocMapped), "cannot allocate pinned memory");
    *flag = 0;
    std::vector<double> times;
    for (std::uint64_t value = 1; value <= 300; ++value) {
        const auto begin = Clock::now();
        raise_flag<<<1, 1, 0, stream.get()>>>(flag, value);
        while (*static_cast<volatile std::uint64_t*>(flag) != value) {
        }
        times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
        stream.synchronise();
    }
    (void)cudaFreeHost(flag);
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                     times.end());
    return times[times.size() / 2];
}

double plain_copy_rate(void* to, const void* from, std::size_t bytes, std::uint32_t copies) {
    const GpuStream stream;
    // The writer registered a different mapping; without registration, copies to this address would use a
    // buffer.
    need_cuda(cudaHostRegister(to, bytes, cudaHostRegisterDefault), "cannot register the slice's memory");
    const auto copy = [&] {
        need_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream.get()),
                  "cannot copy to the host");
    };
    copy();
    stream.synchronise();
    const auto begin = Clock::now();
    for (std::uint32_t i = 0; i < copies; ++i) copy();
    stream.synchronise();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    need_cuda(cudaHostUnregister(to), "cannot unregister the slice's memory");
    return static_cast<double>(bytes) * copies / seconds;
}

}  // namespace croupier::bench::writer
