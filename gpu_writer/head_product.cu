#include <algorithm>

#include "gpu_writer/head_launch.cuh"
#include "gpu_writer/head_product.h"

namespace croupier::gpu_writer::head {
namespace {

auto find_encoder() {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
    if (status != cudaSuccess || result != cudaDriverEntryPointSuccess) found = nullptr;
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
}

auto encoder() {
    static const auto encode = find_encoder();
    return encode;
}

// What is compiled for compute capability 9.0a runs nowhere else. And the kernel of lean steps, which is
// launched while a product ends, waits for it only if it is compiled for 9.0 too.
bool is_hopper() {
    if (!CROUPIER_BUILT_FOR_HOPPER) return false;
    int device = 0;
    int major = 0;
    int minor = 0;
    (void)cudaGetDevice(&device);
    (void)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    (void)cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    return major == 9 && minor == 0;
}

// Of tiles beside each other each reads the head's rows: they are as few as can be, and then as narrow. Two
// that are as wide as can be are tall instead, and read the hidden states less often.
const HeadTiles& tiles_for(std::uint32_t columns) {
    const auto all = head_tiles();
    const std::uint32_t widest = all.back().columns;
    const std::uint32_t beside = (columns + widest - 1) / widest;
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const HeadTiles& each) { return beside * each.columns >= columns; });
    return beside > 1 && found->columns == widest ? all.back() : *found;
}

}  // namespace

cudaError_t map_rows(CUtensorMap& map, Dtype dtype, const MappedRows& rows, std::uint32_t box_rows) {
    if (encoder() == nullptr) return cudaErrorNotSupported;
    const cuuint64_t sizes[] = {rows.elements, rows.rows};
    const cuuint64_t strides[] = {rows.stride * 2};
    const cuuint32_t box[] = {kStepElements, box_rows};
    const cuuint32_t every[] = {1, 1};
    const CUtensorMapDataType type =
        dtype == Dtype::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    const CUresult result = encoder()(&map, type, 2, const_cast<void*>(rows.first), sizes, strides, box,
                                      every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

std::span<const HeadTiles> head_tiles() {
    static const HeadTiles all[] = {kTiles8,  kTiles16,  kTiles32,     kTiles64,
                                    kTiles96, kTiles128, kTallTiles128};
    return all;
}

cudaError_t load_head_kernels(Dtype dtype) {
    if (!is_hopper()) return cudaErrorNoKernelImageForDevice;
    if (encoder() == nullptr) return cudaErrorNotSupported;
    for (const HeadTiles& each : head_tiles()) {
        if (const cudaError_t status = each.load(dtype); status != cudaSuccess) return status;
    }
    return load_computed_answers(dtype);
}

cudaError_t launch_head(const HeadProduct& product, cudaStream_t stream) {
    return tiles_for(product.columns).launch(product, stream);
}

}  // namespace croupier::gpu_writer::head
