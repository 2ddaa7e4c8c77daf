// Lays blocks at their places in the slice: of whole columns, and those that a sampler asked for.
#include <algorithm>

#include "gpu_writer/device_words.cuh"
#include "gpu_writer/lean_kernels.h"
#include "gpu_writer/lean_rows.cuh"

namespace croupier::gpu_writer {
namespace {

using proto::Dtype;

constexpr std::uint32_t kAnswerThreads = 256;
// CUDA blocks that share a column: an answer is a few blocks as a rule, now and then a row.
constexpr std::uint32_t kAnswerParts = 4;
constexpr std::uint32_t kWholeParts = 16;
// They are the kernel's argument, which saves it a round trip to host memory before it knows what to do.
constexpr std::uint32_t kMostTogether = 64;
constexpr std::uint32_t kBitmapBits = 32;

struct Answers {
    LeanAnswer each[kMostTogether];
};
struct WholeColumns {
    std::uint32_t each[kMostTogether];
};

template <Dtype D>
__device__ void store_in_slice(const LeanSlice& slice, std::uint32_t column, std::uint32_t block,
                               std::uint32_t within, const Unit<D>& unit) {
    using Code = typename Element<D>::Code;
    constexpr std::uint32_t kElements = Unit<D>::kElements;
    const std::uint32_t first = block * proto::kBlockIds + within * kElements;
    const auto at = [&](std::uint32_t place) {
        return (std::uint64_t{place / slice.tile} * slice.columns + column) * slice.tile + place % slice.tile;
    };
    const std::uint32_t end = slice.tiles * slice.tile;
    if (slice.tile % kElements == 0) {
        if (first < end) unit.store(reinterpret_cast<void*>(slice.elements), at(first) / kElements);
        return;
    }
    auto* elements = reinterpret_cast<Code*>(slice.elements);
#pragma unroll
    for (std::uint32_t i = 0; i < kElements; ++i) {
        if (first + i < end) elements[at(first + i)] = unit.codes[i];
    }
}

__device__ std::uint32_t place_of(const LeanSlice& slice, std::uint32_t block) {
    return slice.place_of_block == nullptr ? block : __ldg(slice.place_of_block + block);
}

// The set bits of each gridDim.x-th word of the bitmap, in no order.
__device__ std::uint32_t list_part(const LeanAnswer& answer, std::uint32_t blocks, std::uint16_t* list) {
    __shared__ std::uint32_t listed;
    if (threadIdx.x == 0) listed = 0;
    __syncthreads();
    const auto* bitmap = reinterpret_cast<const std::uint32_t*>(answer.bitmap);
    const std::uint32_t words = (blocks + kBitmapBits - 1) / kBitmapBits;
    for (std::uint32_t word = blockIdx.x + threadIdx.x * gridDim.x; word < words;
         word += kAnswerThreads * gridDim.x) {
        std::uint32_t bits = load_now(bitmap + word);
        const std::uint32_t left = blocks - word * kBitmapBits;
        if (left < kBitmapBits) bits &= (1U << left) - 1;
        std::uint32_t at = atomicAdd(&listed, static_cast<std::uint32_t>(__popc(bits)));
        for (; bits != 0; bits &= bits - 1) {
            list[at++] =
                static_cast<std::uint16_t>(word * kBitmapBits + static_cast<std::uint32_t>(__ffs(bits)) - 1);
        }
    }
    __syncthreads();
    return listed;
}

template <Dtype D>
__global__ void __launch_bounds__(kAnswerThreads)
    lay_answers(LeanRows rows, LeanSlice slice, const __grid_constant__ Answers answers,
                std::uint32_t* done) {
    __shared__ std::uint16_t list[proto::blocks_of(proto::kMaxPaddedVocab) / kAnswerParts + kBitmapBits];
    const LeanAnswer& answer = answers.each[blockIdx.y];
    const SliceRows in_order = rows_in_order(rows);
    const RowReader<D> reader(in_order);
    const std::uint32_t listed = list_part(answer, rows.blocks, list);
    copy_blocks<D, kAnswerThreads>(
        reader, answer.column, listed, [&](std::uint32_t i) { return std::uint32_t{list[i]}; },
        [&](std::uint32_t i, std::uint32_t within, const Unit<D>& unit) {
            store_in_slice(slice, answer.column, place_of(slice, list[i]), within, unit);
        });
    __syncthreads();
    if (threadIdx.x != 0) return;
    // Who sees this part counted sees its bytes, on the CPU too.
    __threadfence_system();
    if (atomicAdd(done + blockIdx.y, 1U) + 1 != gridDim.x) return;
    store_now(done + blockIdx.y, 0U);
    __threadfence_system();
    store_now(reinterpret_cast<std::uint64_t*>(answer.answered), answer.word);
}

template <Dtype D>
__global__ void __launch_bounds__(kAnswerThreads)
    lay_whole(LeanRows rows, LeanSlice slice, const __grid_constant__ WholeColumns columns) {
    const SliceRows in_order = rows_in_order(rows);
    const RowReader<D> reader(in_order);
    const std::uint32_t column = columns.each[blockIdx.y];
    // Behind the last block, the padding that makes the last tile whole.
    const std::uint32_t blocks = proto::blocks_of(slice.tiles * slice.tile);
    const auto block_of = [&](std::uint32_t i) { return blockIdx.x + i * gridDim.x; };
    if (blockIdx.x >= blocks) return;
    copy_blocks<D, kAnswerThreads>(
        reader, column, (blocks - blockIdx.x + gridDim.x - 1) / gridDim.x, block_of,
        [&](std::uint32_t i, std::uint32_t within, const Unit<D>& unit) {
            const std::uint32_t block = block_of(i);
            store_in_slice(slice, column, block < rows.blocks ? place_of(slice, block) : block, within, unit);
        });
}

template <Dtype D>
struct Answering {
    static void launch(const LeanRows& rows, const LeanSlice& slice, std::span<const LeanAnswer> answers,
                       std::uint32_t* done, cudaStream_t stream) {
        Answers together;
        std::copy(answers.begin(), answers.end(), together.each);
        const dim3 grid(kAnswerParts, static_cast<std::uint32_t>(answers.size()));
        lay_answers<D><<<grid, kAnswerThreads, 0, stream>>>(rows, slice, together, done);
    }
};

template <Dtype D>
struct LayingWhole {
    static void launch(const LeanRows& rows, const LeanSlice& slice, std::span<const std::uint32_t> columns,
                       cudaStream_t stream) {
        WholeColumns together;
        std::copy(columns.begin(), columns.end(), together.each);
        const dim3 grid(kWholeParts, static_cast<std::uint32_t>(columns.size()));
        lay_whole<D><<<grid, kAnswerThreads, 0, stream>>>(rows, slice, together);
    }
};

template <typename T, typename Launch>
void each_together(std::span<const T> all, Launch launch) {
    while (!all.empty()) {
        const std::size_t some = std::min<std::size_t>(kMostTogether, all.size());
        launch(all.first(some));
        all = all.subspan(some);
    }
}

}  // namespace

std::size_t answer_scratch_bytes() {
    return kMostTogether * sizeof(std::uint32_t);
}

cudaError_t launch_answers(const LeanRows& rows, const LeanSlice& slice, std::span<const LeanAnswer> answers,
                           void* scratch, cudaStream_t stream) {
    each_together(answers, [&](std::span<const LeanAnswer> some) {
        launch_of<Answering>(rows.dtype, rows, slice, some, static_cast<std::uint32_t*>(scratch), stream);
    });
    return cudaGetLastError();
}

cudaError_t launch_whole_columns(const LeanRows& rows, const LeanSlice& slice,
                                 std::span<const std::uint32_t> columns, cudaStream_t stream) {
    each_together(columns, [&](std::span<const std::uint32_t> some) {
        launch_of<LayingWhole>(rows.dtype, rows, slice, some, stream);
    });
    return cudaGetLastError();
}

}  // namespace croupier::gpu_writer
