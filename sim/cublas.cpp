#include "sim/cublas.h"

#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace croupier::sim {
namespace {

constexpr const char* kLibrary = "libcublas.so." CROUPIER_CUBLAS_MAJOR;

}  // namespace

template <typename Function>
void Cublas::find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library_, name));
    if (function == nullptr) throw std::runtime_error(std::string(kLibrary) + " has no function " + name);
}

void Cublas::need(cublasStatus_t status, const char* what) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    throw std::runtime_error(std::string(what) + ": cuBLAS status " +
                             std::to_string(static_cast<int>(status)));
}

Cublas::Cublas(int device) {
    // A handle belongs to the device that is current when it is created.
    if (const cudaError_t status = cudaSetDevice(device); status != cudaSuccess) {
        throw std::runtime_error("the simulated model cannot use GPU " + std::to_string(device) + ": " +
                                 cudaGetErrorString(status));
    }
    library_ = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) {
        throw std::runtime_error(std::string("the simulated model's LM head needs ") + kLibrary + ": " +
                                 ::dlerror() + "; add its folder to LD_LIBRARY_PATH");
    }
    find(create_, "cublasCreate_v2");
    find(destroy_, "cublasDestroy_v2");
    find(set_stream_, "cublasSetStream_v2");
    find(gemm_, "cublasGemmEx");
    need(create_(&handle_), "cublasCreate failed");
}

Cublas::~Cublas() {
    if (handle_ != nullptr) (void)destroy_(handle_);
    if (library_ != nullptr) (void)::dlclose(library_);
}

void Cublas::multiply(const Product& shape, const void* a, const void* b, void* c, std::uint64_t c_stride,
                      cudaStream_t stream) {
    const float one = 1.0F;
    const float zero = 0.0F;
    const int depth = static_cast<int>(shape.depth);
    need(set_stream_(handle_, stream), "cublasSetStream failed");
    need(gemm_(handle_, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(shape.rows),
               static_cast<int>(shape.columns), depth, &one, a, CUDA_R_16BF, depth, b, CUDA_R_16BF, depth,
               &zero, c, CUDA_R_16BF, static_cast<int>(c_stride), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
         "cublasGemmEx failed");
}

}  // namespace croupier::sim
