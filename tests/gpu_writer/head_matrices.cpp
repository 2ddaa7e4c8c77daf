#include "tests/gpu_writer/head_matrices.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/head/blocks_again.h"
#include "testing/session_files.h"

namespace croupier::testing {
namespace {

namespace head = gpu_writer::head;

void need_cuda(cudaError_t status, const char* what) {
    if (status != cudaSuccess)
        throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

std::uint16_t code_of(proto::Dtype dtype, float value) {
    std::uint16_t code = 0;
    if (dtype == proto::Dtype::bf16) {
        const __nv_bfloat16 rounded = __float2bfloat16_rn(value);
        std::memcpy(&code, &rounded, sizeof(code));
    } else {
        const __half rounded = __float2half_rn(value);
        std::memcpy(&code, &rounded, sizeof(code));
    }
    return code;
}

// Of either sign, a few times as large as the deviation at most.
void fill_rows(proto::Dtype dtype, std::uint16_t* to, std::size_t count, float deviation,
               std::uint32_t seed) {
    std::mt19937_64 random(seed);
    std::vector<std::uint16_t> codes(count);
    for (std::uint16_t& code : codes) {
        const std::uint64_t word = random();
        float sum = -2.0F;
        for (std::uint32_t part = 0; part < 4; ++part)
            sum += static_cast<float>(word >> part * 16U & 0xFFFFU) / 65536.0F;
        code = code_of(dtype, sum * 1.7320508F * deviation);
    }
    need_cuda(cudaMemcpy(to, codes.data(), count * sizeof(codes[0]), cudaMemcpyHostToDevice),
              "fill matrices");
}

gpu_writer::DeviceMemory<std::uint16_t> room(std::size_t count) {
    return need(gpu_writer::device_array<std::uint16_t>(count, "test memory"));
}

// All blocks of all rows.
std::vector<head::AskedBlock> all_blocks(std::uint32_t blocks, std::uint32_t rows) {
    std::vector<head::AskedBlock> asked;
    for (std::uint32_t first = 0; first < rows; first += head::kAskedColumns) {
        for (std::uint32_t block = 0; block < blocks; ++block) {
            head::AskedBlock& each = asked.emplace_back();
            each.block = block;
            for (std::uint32_t i = 0; i < head::kAskedColumns; ++i)
                each.columns[i] = first + i < rows ? first + i : head::kNoColumn;
        }
    }
    return asked;
}

}  // namespace

HeadMatrices::HeadMatrices(const HeadShape& shape, std::uint32_t seed)
    : shape_(shape), hidden_(room(stride() * shape.rows)), weight_(room(stride() * shape.entries)) {
    fill(seed);
}

void HeadMatrices::fill(std::uint32_t seed) {
    const float deviation = 3.0F / std::sqrt(static_cast<float>(shape_.elements));
    fill_rows(shape_.dtype, hidden_.get(), stride() * shape_.rows, 1.0F, seed);
    fill_rows(shape_.dtype, weight_.get(), stride() * shape_.entries, deviation, seed + 1);
}

void HeadMatrices::put_hidden(std::uint32_t row, std::uint32_t element, float value) {
    const std::uint16_t code = code_of(shape_.dtype, value);
    need_cuda(
        cudaMemcpy(hidden_.get() + row * stride() + element, &code, sizeof(code), cudaMemcpyHostToDevice),
        "put an element");
}

void HeadMatrices::overwrite(void* stream) {
    auto* const behind = static_cast<cudaStream_t>(stream);
    need_cuda(cudaMemsetAsync(hidden_.get(), 0xFF, stride() * shape_.rows * 2, behind),
              "overwrite hidden states");
}

gpu_writer::EnqueuedHead HeadMatrices::head() const {
    return {hidden_.get(), stride(), weight_.get(), stride(), shape_.rows, shape_.elements};
}

Rows HeadMatrices::logits(std::uint64_t row_stride) const {
    const std::uint32_t blocks = (shape_.lead + shape_.entries + head::kBlockRows - 1) / head::kBlockRows;
    const std::vector<head::AskedBlock> asked = all_blocks(blocks, shape_.rows);
    const auto on_gpu = need(gpu_writer::device_array<head::AskedBlock>(asked.size(), "test memory"));
    constexpr std::size_t kOfAsked = std::size_t{head::kAskedColumns} * head::kBlockRows;
    const auto computed = room(asked.size() * kOfAsked);
    need_cuda(cudaMemcpy(on_gpu.get(), asked.data(), asked.size() * sizeof(asked[0]), cudaMemcpyHostToDevice),
              "ask for blocks");
    need_cuda(head::launch_blocks_again(shape_.dtype,
                                        {weight_.get(), stride(), hidden_.get(), stride(), shape_.elements,
                                         shape_.entries, shape_.lead, on_gpu.get(), computed.get()},
                                        static_cast<std::uint32_t>(asked.size()), nullptr),
              "compute blocks");
    std::vector<std::uint16_t> codes(asked.size() * kOfAsked);
    need_cuda(
        cudaMemcpy(codes.data(), computed.get(), codes.size() * sizeof(codes[0]), cudaMemcpyDeviceToHost),
        "compute blocks");
    Rows rows;
    rows.stride = row_stride;
    rows.bytes.assign(row_stride * shape_.rows * 2, 0x3C);
    for (std::uint32_t row = 0; row < shape_.rows; ++row) {
        const std::size_t group = std::size_t{row / head::kAskedColumns} * blocks;
        for (std::uint32_t entry = 0; entry < shape_.entries; ++entry) {
            const std::uint32_t place = shape_.lead + entry;
            const std::size_t at = (group + place / head::kBlockRows) * kOfAsked +
                                   std::size_t{row % head::kAskedColumns} * head::kBlockRows +
                                   place % head::kBlockRows;
            std::memcpy(rows.bytes.data() + (row * row_stride + entry) * 2, &codes[at], 2);
        }
    }
    return rows;
}

}  // namespace croupier::testing
