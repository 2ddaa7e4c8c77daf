// Lays blocks at their places in the slice: of whole columns, and those that a sampler asked for.
#include <algorithm>
#include <functional>

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
// They are the kernel's argument, and so are the lists: what it read of host memory by itself would come a
// few words at a time, some 30 million of them a second.
constexpr std::uint32_t kMostTogether = 64;
constexpr std::uint32_t kListRoom = 12288;
constexpr std::uint32_t kBitmapBits = 32;

struct Answer {
    std::uint64_t bitmap;
    std::uint64_t answered;
    std::uint64_t word;
    std::uint32_t column;
    std::uint16_t first;  // of the lists
    std::uint16_t count;  // 0: the bitmap says which
};
struct Answers {
    Answer each[kMostTogether];
    std::uint16_t lists[kListRoom];
};
// What kernels may be given in all.
static_assert(sizeof(Answers) <= 32 * 1024 - 512);
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
__device__ std::uint32_t list_part(const Answer& answer, std::uint32_t blocks, std::uint16_t* list) {
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

// Of so many, each gridDim.x-th one.
__device__ std::uint32_t own_part(std::uint32_t count) {
    return blockIdx.x < count ? (count - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
}

template <Dtype D>
__global__ void __launch_bounds__(kAnswerThreads)
    lay_answers(LeanRows rows, LeanSlice slice, const __grid_constant__ Answers answers,
                std::uint32_t* done) {
    __shared__ std::uint16_t list[proto::blocks_of(proto::kMaxPaddedVocab) / kAnswerParts + kBitmapBits];
    const Answer& answer = answers.each[blockIdx.y];
    const SliceRows in_order = rows_in_order(rows);
    const RowReader<D> reader(in_order);
    const bool given = answer.count > 0 || answer.bitmap == 0;
    const std::uint32_t listed = given ? own_part(answer.count) : list_part(answer, rows.blocks, list);
    const auto block_of = [&](std::uint32_t i) {
        return std::uint32_t{given ? answers.lists[answer.first + blockIdx.x + i * gridDim.x] : list[i]};
    };
    copy_blocks<D, kAnswerThreads>(reader, answer.column, listed, block_of,
                                   [&](std::uint32_t i, std::uint32_t within, const Unit<D>& unit) {
                                       store_in_slice(slice, answer.column, place_of(slice, block_of(i)),
                                                      within, unit);
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
        reader, column, own_part(blocks), block_of,
        [&](std::uint32_t i, std::uint32_t within, const Unit<D>& unit) {
            const std::uint32_t block = block_of(i);
            store_in_slice(slice, column, block < rows.blocks ? place_of(slice, block) : block, within, unit);
        });
}

template <Dtype D>
struct Answering {
    static void launch(const LeanRows& rows, const LeanSlice& slice, const Answers& together,
                       std::uint32_t count, std::uint32_t* done, cudaStream_t stream) {
        lay_answers<D><<<dim3(kAnswerParts, count), kAnswerThreads, 0, stream>>>(rows, slice, together, done);
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

// As many of the first answers as one launch holds, with their lists.
std::uint32_t take_together(std::span<const LeanAnswer> answers, Answers& together) {
    std::uint32_t count = 0;
    std::size_t listed = 0;
    for (const LeanAnswer& answer : answers) {
        const std::size_t some = answer.list.size() <= kListRoom ? answer.list.size() : 0;
        if (count == kMostTogether || listed + some > kListRoom) break;
        std::copy_n(answer.list.begin(), some, together.lists + listed);
        together.each[count++] = {answer.bitmap,
                                  answer.answered,
                                  answer.word,
                                  answer.column,
                                  static_cast<std::uint16_t>(listed),
                                  static_cast<std::uint16_t>(some)};
        listed += some;
    }
    return count;
}

template <Dtype D>
struct Loading {
    static void launch(cudaError_t* status) {
        cudaFuncAttributes attributes;
        *status = cudaFuncGetAttributes(&attributes, lay_whole<D>);
        if (*status == cudaSuccess) *status = cudaFuncGetAttributes(&attributes, lay_answers<D>);
    }
};

}  // namespace

cudaError_t load_answer_kernels(Dtype dtype) {
    cudaError_t status = cudaSuccess;
    launch_of<Loading>(dtype, &status);
    return status;
}

std::size_t answer_scratch_bytes() {
    return kMostTogether * sizeof(std::uint32_t);
}

cudaError_t launch_answers(const LeanRows& rows, const LeanSlice& slice, std::span<const LeanAnswer> answers,
                           void* scratch, cudaStream_t stream) {
    Answers together;
    while (!answers.empty()) {
        const std::uint32_t count = take_together(answers, together);
        launch_of<Answering>(rows.dtype, rows, slice, std::cref(together), count,
                             static_cast<std::uint32_t*>(scratch), stream);
        answers = answers.subspan(count);
    }
    return cudaGetLastError();
}

cudaError_t launch_whole_columns(const LeanRows& rows, const LeanSlice& slice,
                                 std::span<const std::uint32_t> columns, cudaStream_t stream) {
    while (!columns.empty()) {
        const auto some = columns.first(std::min<std::size_t>(kMostTogether, columns.size()));
        launch_of<LayingWhole>(rows.dtype, rows, slice, some, stream);
        columns = columns.subspan(some.size());
    }
    return cudaGetLastError();
}

}  // namespace croupier::gpu_writer
