// cuBLAS, loaded at first use, so that it is needed only for simulated GPUs.
#pragma once

#include <cublas_v2.h>

#include <cstdint>

namespace croupier::sim {

struct Product {
    std::uint32_t rows = 0;
    std::uint32_t columns = 0;
    std::uint32_t depth = 0;
};

class Cublas {
  public:
    // Makes `device` the thread's current device. Throws std::runtime_error if the library is not found.
    explicit Cublas(int device);
    Cublas(const Cublas&) = delete;
    Cublas& operator=(const Cublas&) = delete;
    ~Cublas();

    // c[columns][c_stride] = a[rows][depth] * b[columns][depth], transposed; bf16, sums in fp32.
    void multiply(const Product& shape, const void* a, const void* b, void* c, std::uint64_t c_stride,
                  cudaStream_t stream);

  private:
    // The header declares two overloads; this is the one that the library exports.
    using Gemm = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                                const void*, const void*, cudaDataType, int, const void*, cudaDataType, int,
                                const void*, void*, cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t);

    template <typename Function>
    void find(Function& function, const char* name);
    static void need(cublasStatus_t status, const char* what);

    void* library_ = nullptr;
    decltype(&cublasCreate_v2) create_ = nullptr;
    decltype(&cublasDestroy_v2) destroy_ = nullptr;
    decltype(&cublasSetStream_v2) set_stream_ = nullptr;
    Gemm* gemm_ = nullptr;
    cublasHandle_t handle_ = nullptr;
};

}  // namespace croupier::sim
