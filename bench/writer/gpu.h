// GPU work of the benchmark other than the writer.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

namespace croupier::bench::writer {

void need_cuda(cudaError_t status, const char* what);
std::string gpu_name(int device);

class GpuStream {
  public:
    GpuStream();
    GpuStream(const GpuStream&) = delete;
    GpuStream& operator=(const GpuStream&) = delete;
    ~GpuStream();

    cudaStream_t get() const { return stream_; }
    void synchronise() const;

  private:
    cudaStream_t stream_ = nullptr;
};

class GpuBuffer {
  public:
    explicit GpuBuffer(std::size_t bytes);
    GpuBuffer(const GpuBuffer&) = delete;
    GpuBuffer& operator=(const GpuBuffer&) = delete;
    ~GpuBuffer();

    void* get() const { return memory_; }

  private:
    void* memory_ = nullptr;
};

// Matrix products that keep every multiprocessor busy, as a forward pass does.
class MatmulLoad {
  public:
    MatmulLoad();
    // Seconds for `products` products on a separate stream; calls `meanwhile` until they are done.
    template <typename Meanwhile>
    double run(std::uint32_t products, Meanwhile&& meanwhile) {
        start(products);
        while (!finished()) meanwhile();
        return seconds();
    }

  private:
    void start(std::uint32_t products);
    bool finished() const;
    double seconds() const;

    GpuStream stream_;
    GpuBuffer a_;
    GpuBuffer b_;
    GpuBuffer c_;
    cudaEvent_t begun_ = nullptr;
    cudaEvent_t ended_ = nullptr;
};

// Median seconds from a kernel's launch until the CPU sees the word that it stores: the lower bound for a
// writer.
double launch_to_flag_seconds();

// Bytes per second of sequential copies to registered host memory on one stream.
double plain_copy_rate(void* to, const void* from, std::size_t bytes, std::uint32_t copies);

}  // namespace croupier::bench::writer
