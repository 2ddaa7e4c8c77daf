#include "bench/head/cublas_product.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace croupier::gpu_writer::head {
namespace {

void* open_library() {
    std::vector<std::string> names;
    if (const char* given = std::getenv("CUBLASLT")) names.emplace_back(given);
    for (const char* version : {"13", "12"}) {
        const std::string file = std::string("libcublasLt.so.") + version;
        for (const char* folder : {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/lib/",
                                   "/opt/torch/.venv/lib/python3.12/site-packages/nvidia/cu13/lib/"})
            names.push_back(folder + file);
    }
    for (const std::string& name : names) {
        if (void* library = dlopen(name.c_str(), RTLD_NOW)) return library;
    }
    throw std::runtime_error("no libcublasLt.so.13 or .12 found: set CUBLASLT to its path");
}

void* library() {
    static void* const opened = open_library();
    return opened;
}

template <typename Function>
Function* find(const char* name) {
    void* found = dlsym(library(), name);
    if (found == nullptr) throw std::runtime_error(std::string("libcublasLt has no ") + name);
    return reinterpret_cast<Function*>(found);
}

void check(cublasStatus_t status, const char* what) {
    if (status != CUBLAS_STATUS_SUCCESS)
        throw std::runtime_error(std::string(what) + " failed with status " + std::to_string(status));
}

constexpr std::size_t kWorkspace = std::size_t{64} << 20U;

}  // namespace

struct CublasProduct::State {
    decltype(::cublasLtCreate)* create = find<decltype(::cublasLtCreate)>("cublasLtCreate");
    decltype(::cublasLtDestroy)* destroy = find<decltype(::cublasLtDestroy)>("cublasLtDestroy");
    decltype(::cublasLtMatmulDescCreate)* create_product =
        find<decltype(::cublasLtMatmulDescCreate)>("cublasLtMatmulDescCreate");
    decltype(::cublasLtMatmulDescDestroy)* destroy_product =
        find<decltype(::cublasLtMatmulDescDestroy)>("cublasLtMatmulDescDestroy");
    decltype(::cublasLtMatmulDescSetAttribute)* set_product =
        find<decltype(::cublasLtMatmulDescSetAttribute)>("cublasLtMatmulDescSetAttribute");
    decltype(::cublasLtMatrixLayoutCreate)* create_layout =
        find<decltype(::cublasLtMatrixLayoutCreate)>("cublasLtMatrixLayoutCreate");
    decltype(::cublasLtMatrixLayoutDestroy)* destroy_layout =
        find<decltype(::cublasLtMatrixLayoutDestroy)>("cublasLtMatrixLayoutDestroy");
    decltype(::cublasLtMatmulPreferenceCreate)* create_preference =
        find<decltype(::cublasLtMatmulPreferenceCreate)>("cublasLtMatmulPreferenceCreate");
    decltype(::cublasLtMatmulPreferenceDestroy)* destroy_preference =
        find<decltype(::cublasLtMatmulPreferenceDestroy)>("cublasLtMatmulPreferenceDestroy");
    decltype(::cublasLtMatmulPreferenceSetAttribute)* set_preference =
        find<decltype(::cublasLtMatmulPreferenceSetAttribute)>("cublasLtMatmulPreferenceSetAttribute");
    decltype(::cublasLtMatmulAlgoGetHeuristic)* find_heuristics =
        find<decltype(::cublasLtMatmulAlgoGetHeuristic)>("cublasLtMatmulAlgoGetHeuristic");
    decltype(::cublasLtMatmul)* multiply = find<decltype(::cublasLtMatmul)>("cublasLtMatmul");

    cublasLtHandle_t handle = nullptr;
    cublasLtMatmulDesc_t product = nullptr;
    cublasLtMatrixLayout_t head = nullptr;
    cublasLtMatrixLayout_t hidden = nullptr;
    cublasLtMatrixLayout_t logits = nullptr;
    std::vector<cublasLtMatmulHeuristicResult_t> ways;
    void* workspace = nullptr;

    State() {
        check(create(&handle), "cublasLtCreate");
        if (cudaMalloc(&workspace, kWorkspace) != cudaSuccess) throw std::runtime_error("no room for cuBLAS");
    }
    ~State() {
        forget();
        (void)cudaFree(workspace);
        (void)destroy(handle);
    }
    void forget() {
        if (product == nullptr) return;
        (void)destroy_product(product);
        for (const auto layout : {head, hidden, logits}) (void)destroy_layout(layout);
        product = nullptr;
    }
    // cuBLAS counts by columns: logits^T = head * hidden^T, of matrices that it sees transposed.
    void describe(const HeadProduct& call) {
        forget();
        const cudaDataType_t type = call.dtype == proto::Dtype::bf16 ? CUDA_R_16BF : CUDA_R_16F;
        check(create_product(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
        const cublasOperation_t turned = CUBLAS_OP_T;
        check(set_product(product, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof(turned)),
              "cublasLtMatmulDescSetAttribute");
        check(create_layout(&head, type, call.elements, call.entries, call.elements), "layout");
        check(create_layout(&hidden, type, call.elements, call.columns, call.elements), "layout");
        check(create_layout(&logits, type, call.entries, call.columns,
                            static_cast<std::int64_t>(call.logits_stride)),
              "layout");
    }
    void find_ways() {
        cublasLtMatmulPreference_t preference = nullptr;
        check(create_preference(&preference), "cublasLtMatmulPreferenceCreate");
        check(set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace,
                             sizeof(kWorkspace)),
              "cublasLtMatmulPreferenceSetAttribute");
        ways.assign(kMostWays, {});
        int found = 0;
        check(find_heuristics(handle, product, head, hidden, logits, logits, preference, kMostWays,
                              ways.data(), &found),
              "cublasLtMatmulAlgoGetHeuristic");
        ways.resize(static_cast<std::size_t>(found));
        (void)destroy_preference(preference);
    }
};

CublasProduct::CublasProduct() : state_(std::make_unique<State>()) {}
CublasProduct::~CublasProduct() = default;

int CublasProduct::prepare(const HeadProduct& call) {
    state_->describe(call);
    state_->find_ways();
    return static_cast<int>(state_->ways.size());
}

bool CublasProduct::launch(const HeadProduct& call, int way, cudaStream_t stream) {
    const float one = 1.0F;
    const float zero = 0.0F;
    return state_->multiply(state_->handle, state_->product, &one, call.weight, state_->head, call.hidden,
                            state_->hidden, &zero, call.logits, state_->logits, call.logits, state_->logits,
                            &state_->ways[static_cast<std::size_t>(way)].algo, state_->workspace, kWorkspace,
                            stream) == CUBLAS_STATUS_SUCCESS;
}

}  // namespace croupier::gpu_writer::head
