#include <vector>

#include "bench/head/blocks_again.cuh"
#include "bench/head/head_product.h"
#include "bench/head/launch_head.cuh"
#include "bench/head/variants.h"

namespace croupier::head {
namespace {

template <Dtype D>
cudaError_t launch_again(const AgainWork& work, std::uint32_t count, cudaStream_t stream) {
    static const cudaError_t prepared =
        cudaFuncSetAttribute(blocks_again<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, kAgainSharedBytes);
    if (prepared != cudaSuccess) return prepared;
    const dim3 grid{count, kBlockRows / kAgainRows, 1};
    blocks_again<D><<<grid, kWarpgroup, kAgainSharedBytes, stream>>>(work);
    return cudaGetLastError();
}

auto find_encoder() {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
    if (status != cudaSuccess || result != cudaDriverEntryPointSuccess) found = nullptr;
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
}

}  // namespace

cudaError_t map_matrix(CUtensorMap& map, Dtype dtype, const void* matrix, std::uint32_t elements,
                       std::uint32_t rows, std::uint32_t box_rows) {
    static const auto encode = find_encoder();
    if (encode == nullptr) return cudaErrorNotSupported;
    const cuuint64_t sizes[] = {elements, rows};
    const cuuint64_t strides[] = {cuuint64_t{elements} * 2};
    const cuuint32_t box[] = {kStepElements, box_rows};
    const cuuint32_t every[] = {1, 1};
    const CUtensorMapDataType type =
        dtype == Dtype::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    const CUresult result = encode(&map, type, 2, const_cast<void*>(matrix), sizes, strides, box, every,
                                   CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                   CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

std::span<const HeadVariant> head_variants() {
    static const std::vector<HeadVariant> all = [] {
        std::vector<HeadVariant> joined;
        for (const auto some : {small_variants(), middle_variants(), large_variants()})
            joined.insert(joined.end(), some.begin(), some.end());
        return joined;
    }();
    return all;
}

cudaError_t launch_blocks_again(const HeadCall& call, const void* asked, std::uint32_t count,
                                std::uint16_t* logits, cudaStream_t stream) {
    const AgainWork work{static_cast<const std::uint16_t*>(call.head),
                         call.elements,
                         static_cast<const std::uint16_t*>(call.hidden),
                         call.elements,
                         call.elements,
                         call.entries,
                         call.lead,
                         static_cast<const AskedBlock*>(asked),
                         logits};
    if (call.dtype == Dtype::bf16) return launch_again<Dtype::bf16>(work, count, stream);
    if (call.dtype == Dtype::fp16) return launch_again<Dtype::fp16>(work, count, stream);
    return cudaErrorInvalidValue;
}

}  // namespace croupier::head
