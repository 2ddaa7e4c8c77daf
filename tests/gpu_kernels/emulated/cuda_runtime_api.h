// What the kernels of a lean step take of CUDA, for this CPU (tests/gpu_kernels/grid.h). Found before CUDA's
// own by what is compiled for it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <new>
#include <numeric>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/gpu_kernels/grid.h"

// NOLINTBEGIN: the names are CUDA's.
#define __global__
#define __device__
#define __noinline__
#define __host__
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static

enum cudaError_t { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorLaunchFailure = 719 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
using cudaStream_t = void*;
using cudaEvent_t = void*;
struct cudaFuncAttributes {};
struct dim3 {
    unsigned x = 1, y = 1, z = 1;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization };
struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    struct {
        int programmaticStreamSerializationAllowed;
    } val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim;
    dim3 blockDim;
    std::size_t dynamicSmemBytes = 0;
    cudaStream_t stream = nullptr;
    cudaLaunchAttribute* attrs = nullptr;
    unsigned numAttrs = 0;
};

// What the CPU's side takes: memory is this process's, and whatever is enqueued is done at once.
enum cudaStreamCaptureMode { cudaStreamCaptureModeRelaxed };
constexpr unsigned cudaHostAllocMapped = 0, cudaHostAllocPortable = 0;
constexpr unsigned cudaHostRegisterMapped = 0, cudaHostRegisterPortable = 0;
constexpr unsigned cudaStreamNonBlocking = 0, cudaEventDisableTiming = 0;
inline const char* cudaGetErrorString(cudaError_t) {
    return "emulated";
}
inline const char* cudaGetErrorName(cudaError_t) {
    return "emulated";
}
inline cudaError_t cuda_allocate(void** memory, std::size_t bytes) {
    *memory = ::operator new (bytes, std::align_val_t{256});
    return cudaSuccess;
}
inline cudaError_t cuda_free(void* memory) {
    ::operator delete (memory, std::align_val_t{256});
    return cudaSuccess;
}
inline cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
    return cuda_allocate(memory, bytes);
}
inline cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
    return cuda_allocate(memory, bytes);
}
inline cudaError_t cudaFree(void* memory) {
    return cuda_free(memory);
}
inline cudaError_t cudaFreeHost(void* memory) {
    return cuda_free(memory);
}
inline cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
    std::memset(memory, value, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaHostRegister(void*, std::size_t, unsigned) {
    return cudaSuccess;
}
inline cudaError_t cudaHostUnregister(void*) {
    return cudaSuccess;
}
inline cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
    *device = host;
    return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int) {
    return cudaSuccess;
}
inline cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) {
    return cudaSuccess;
}
inline cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* most) {
    *least = *most = 0;
    return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
    return cuda_allocate(stream, 1);
}
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
    return cuda_allocate(stream, 1);
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    return cuda_free(stream);
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) {
    return cudaSuccess;
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
    return cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
    return cuda_allocate(event, 1);
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
    return cuda_free(event);
}
inline cudaError_t cudaEventQuery(cudaEvent_t) {
    return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
    return cudaSuccess;
}

inline dim3 threadIdx;
inline dim3 blockIdx;
inline dim3 gridDim;

inline cudaError_t cudaGetLastError() {
    return cudaSuccess;
}
template <typename Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, Kernel) {
    return cudaSuccess;
}
template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel, cudaFuncAttribute, int) {
    return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                                   cudaStream_t) {
    std::memcpy(to, from, bytes);
    return cudaSuccess;
}
template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
    const std::tuple<std::decay_t<Parameters>...> kept(std::forward<Arguments>(arguments)...);
    croupier::testing::gpu::run_grid(config->gridDim.x, config->gridDim.y, config->blockDim.x,
                                     [&] { std::apply(kernel, kept); });
    return cudaSuccess;
}

template <typename T>
std::uint64_t cuda_bits(T value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(value));
    return bits;
}
template <typename T>
T cuda_value(std::uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
}

inline void __syncthreads() {
    (void)croupier::testing::gpu::await_block(false);
}
inline int __syncthreads_or(int set) {
    return croupier::testing::gpu::await_block(set != 0) ? 1 : 0;
}
inline void __syncwarp() {
    croupier::testing::gpu::all_lanes("__syncwarp", 0);
}
template <typename T>
T __shfl_sync(unsigned, T value, int lane) {
    return cuda_value<T>(
        croupier::testing::gpu::all_lanes("__shfl_sync", cuda_bits(value))[static_cast<unsigned>(lane)]);
}
template <typename T>
T __shfl_xor_sync(unsigned, T value, int apart) {
    const unsigned other = threadIdx.x % 32 ^ static_cast<unsigned>(apart);
    return cuda_value<T>(croupier::testing::gpu::all_lanes("__shfl_xor_sync", cuda_bits(value))[other]);
}
template <typename T>
T __shfl_up_sync(unsigned, T value, unsigned apart) {
    const unsigned lane = threadIdx.x % 32;
    const auto& all = croupier::testing::gpu::all_lanes("__shfl_up_sync", cuda_bits(value));
    return lane < apart ? value : cuda_value<T>(all[lane - apart]);
}
inline unsigned __ballot_sync(unsigned, bool set) {
    const auto& all = croupier::testing::gpu::all_lanes("__ballot_sync", set ? 1 : 0);
    unsigned bits = 0;
    for (unsigned lane = 0; lane < 32; ++lane) bits |= static_cast<unsigned>(all[lane]) << lane;
    return bits;
}
inline bool __any_sync(unsigned lanes, bool set) {
    return __ballot_sync(lanes, set) != 0;
}
inline unsigned __reduce_max_sync(unsigned, unsigned value) {
    const auto& all = croupier::testing::gpu::all_lanes("__reduce_max_sync", value);
    return static_cast<unsigned>(*std::max_element(all.begin(), all.end()));
}

inline unsigned __reduce_add_sync(unsigned, unsigned value) {
    const auto& all = croupier::testing::gpu::all_lanes("__reduce_add_sync", value);
    return static_cast<unsigned>(std::accumulate(all.begin(), all.end(), std::uint64_t{0}));
}

// One thread runs at a time, and blocks one after another: memory is as the program has it.
inline void __threadfence() {}
inline void __threadfence_system() {}
template <typename T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
    return std::exchange(*at, *at + value);
}
template <typename T>
T atomicMax(T* at, T value) {
    return std::exchange(*at, std::max(*at, value));
}
template <typename T>
T __ldg(const T* from) {
    return *from;
}
template <typename T>
T __ldcg(const T* from) {
    return *from;
}
template <typename T>
T __ldcv(const T* from) {
    return *from;
}
inline void __nanosleep(unsigned) {}

inline int __popc(unsigned value) {
    return std::popcount(value);
}
inline int __ffs(int value) {
    return value == 0 ? 0 : std::countr_zero(static_cast<unsigned>(value)) + 1;
}
inline float __uint_as_float(unsigned bits) {
    return std::bit_cast<float>(bits);
}
inline unsigned __float_as_uint(float value) {
    return std::bit_cast<unsigned>(value);
}
using std::isnan;
template <typename T>
constexpr T min(T a, T b) {
    return b < a ? b : a;
}
template <typename T>
constexpr T max(T a, T b) {
    return a < b ? b : a;
}
// NOLINTEND
