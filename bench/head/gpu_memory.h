// Arrays in GPU memory, and calls of CUDA that must not fail.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace croupier::gpu_writer::head {

inline void check(cudaError_t status, const char* what) {
    if (status == cudaSuccess) return;
    throw std::runtime_error(std::string(what) + " failed: " + cudaGetErrorString(status));
}

struct GpuFree {
    void operator()(void* memory) const { (void)cudaFree(memory); }
};

template <typename T>
class GpuArray {
  public:
    GpuArray() = default;
    explicit GpuArray(std::uint64_t count) : count_(count) {
        void* memory = nullptr;
        check(cudaMalloc(&memory, bytes()), "cudaMalloc");
        memory_.reset(static_cast<T*>(memory));
    }
    T* get() const { return memory_.get(); }
    std::uint64_t count() const { return count_; }
    std::uint64_t bytes() const { return count_ * sizeof(T); }
    void fill(int byte) const { check(cudaMemset(get(), byte, bytes()), "cudaMemset"); }

  private:
    std::uint64_t count_ = 0;
    std::unique_ptr<T, GpuFree> memory_;
};

// One number that kernels change.
template <typename T>
class GpuNumber {
  public:
    GpuNumber() : array_(1) { array_.fill(0); }
    T* get() const { return array_.get(); }
    // Waits for the GPU, and begins anew.
    T take() const {
        T value{};
        check(cudaMemcpy(&value, get(), sizeof(value), cudaMemcpyDeviceToHost), "a kernel");
        array_.fill(0);
        return value;
    }

  private:
    GpuArray<T> array_;
};

}  // namespace croupier::gpu_writer::head
