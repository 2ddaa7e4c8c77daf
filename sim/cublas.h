// cuBLAS, found when it is first wanted: whoever simulates no GPU need not have it.
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
    // For products on this device, which becomes the thread's. Throws std::runtime_error, which says where
    // the library was looked for.
    explicit Cublas(int device);
    Cublas(const Cublas&) = delete;
    Cublas& operator=(const Cublas&) = delete;
    ~Cublas();

    // c[columns][c_stride] = a[rows][depth] * b[columns][depth], transposed; bf16, sums in fp32.
    void multiply(const Product& shape, const void* a, const void* b, void* c, std::uint64_t c_stride,
                  cudaStream_t stream);

  private:
    // Of the header's two functions of the name the one that the library has.
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
