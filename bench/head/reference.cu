#include "bench/head/blocks_again.h"
#include "bench/head/reference.h"
#include "gpu_writer/head_values.cuh"

namespace croupier::gpu_writer::head {
namespace {

__device__ std::uint64_t mixed(std::uint64_t value) {
    value += 0x9E3779B97F4A7C15U;
    value = (value ^ value >> 30U) * 0xBF58476D1CE4E5B9U;
    value = (value ^ value >> 27U) * 0x94D049BB133111EBU;
    return value ^ value >> 31U;
}

template <Dtype D>
__device__ float value_of(std::uint32_t code) {
    return PairOf<D>::values(pair_of<D>(code)).x;
}

// Numbers that ascend as logits do. Zeros are equal, and NaNs are above all.
template <Dtype D>
__device__ std::uint32_t rank_of_code(std::uint32_t code) {
    if ((code & 0x7FFFU) > (minus_infinity(D) & 0x7FFFU)) return 0xFFFFU;
    const std::uint32_t one_zero = code == 0x8000U ? 0U : code;
    return one_zero ^ ((one_zero & 0x8000U) != 0 ? 0xFFFFU : 0x8000U);
}
__device__ std::uint16_t code_of_rank(std::uint32_t rank) {
    return static_cast<std::uint16_t>(rank ^ ((rank & 0x8000U) != 0 ? 0x8000U : 0xFFFFU));
}

template <Dtype D>
__global__ void fill(std::uint16_t* codes, std::uint64_t count, std::uint64_t seed, float deviation) {
    const std::uint64_t first = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    for (std::uint64_t i = first; i < count; i += std::uint64_t{gridDim.x} * blockDim.x) {
        const std::uint64_t word = mixed(i ^ mixed(seed));
        float sum = -2.0F;
        for (std::uint32_t part = 0; part < 4; ++part) {
            sum += static_cast<float>(word >> part * 16U & 0xFFFFU) / 65536.0F;
        }
        codes[i] =
            static_cast<std::uint16_t>(codes_of(PairOf<D>::rounded(sum * 1.7320508F * deviation, 0.0F)));
    }
}

__device__ void raise(std::uint32_t* most, float value) {
    // Of numbers that are not negative, and NaN above them.
    atomicMax(most, __float_as_uint(isnan(value) ? __int_as_float(0x7FFFFFFF) : value));
}

constexpr std::uint32_t kSide = 16;

template <Dtype D>
__global__ void compare_products(HeadProduct call, std::uint32_t* most) {
    __shared__ float heads[kSide][kSide + 1];
    __shared__ float hiddens[kSide][kSide + 1];
    const auto* head = static_cast<const std::uint16_t*>(call.weight);
    const auto* hidden = static_cast<const std::uint16_t*>(call.hidden);
    const std::uint32_t entry = blockIdx.x * kSide + threadIdx.x;
    const std::uint32_t column = blockIdx.y * kSide + threadIdx.y;
    double sum = 0;
    double squares = 0;
    for (std::uint32_t first = 0; first < call.elements; first += kSide) {
        const std::uint32_t element = first + threadIdx.x;
        const auto read = [&](const std::uint16_t* matrix, std::uint32_t row, std::uint32_t rows) {
            if (row >= rows || element >= call.elements) return 0.0F;
            return value_of<D>(matrix[std::uint64_t{row} * call.elements + element]);
        };
        heads[threadIdx.y][threadIdx.x] = read(head, blockIdx.x * kSide + threadIdx.y, call.entries);
        hiddens[threadIdx.y][threadIdx.x] = read(hidden, column, call.columns);
        __syncthreads();
        for (std::uint32_t i = 0; i < kSide; ++i) {
            const double term = double{heads[threadIdx.x][i]} * double{hiddens[threadIdx.y][i]};
            sum += term;
            squares += term * term;
        }
        __syncthreads();
    }
    if (entry >= call.entries || column >= call.columns) return;
    const double logit = value_of<D>(call.logits[column * call.logits_stride + call.lead + entry]);
    const double half_step = fmax(ldexp(1.0, ilogb(sum) - (D == Dtype::bf16 ? 8 : 11)), 0x1p-25);
    raise(most, static_cast<float>(fmax(fabs(logit - sum) - half_step, 0.0) / sqrt(squares)));
}

// Eight lanes read a block: eight logits each.
template <Dtype D>
__global__ void measure(HeadProduct call, std::uint16_t* maxima) {
    const std::uint32_t block = blockIdx.x * (blockDim.x / 8) + threadIdx.x / 8;
    const std::uint16_t* row = call.logits + blockIdx.y * call.logits_stride + call.lead;
    const std::uint32_t first = threadIdx.x % 8 * 8;
    const std::int64_t entry = std::int64_t{block} * kBlockRows + first - call.lead;
    alignas(16) std::uint16_t codes[8];
    const bool is_whole = call.lead == 0 && call.logits_stride % 8 == 0 && entry + 8 <= call.entries;
    if (is_whole) *reinterpret_cast<uint4*>(codes) = __ldg(reinterpret_cast<const uint4*>(row + entry));
    std::uint32_t rank = 0;
#pragma unroll
    for (std::uint32_t i = 0; i < 8; ++i) {
        const bool is_there = entry + i >= 0 && entry + i < call.entries;
        if (!is_whole && is_there) codes[i] = row[entry + i];
        if (is_there) rank = std::max(rank, rank_of_code<D>(codes[i]));
    }
#pragma unroll
    for (int apart = 4; apart > 0; apart /= 2) rank = std::max(rank, __shfl_xor_sync(kAll, rank, apart));
    if (threadIdx.x % 8 == 0 && block < call.blocks())
        maxima[blockIdx.y * call.maxima_stride + block] = code_of_rank(rank);
}

template <Dtype D>
__global__ void compare_sums(HeadProduct call, std::uint32_t* most) {
    const std::uint32_t block = blockIdx.x * blockDim.x + threadIdx.x;
    if (block >= call.blocks()) return;
    const std::uint64_t at = blockIdx.y * call.sums_stride + block;
    constexpr double kLog2E = 1.4426950408889634;
    const double scale = call.wants[blockIdx.y].scale * kLog2E;
    const double largest = value_of<D>(call.maxima[blockIdx.y * call.maxima_stride + block]);
    double at_one = 0;
    double at_scale = 0;
    for (std::uint32_t row = 0; row < kBlockRows; ++row) {
        const std::int64_t entry = std::int64_t{block} * kBlockRows + row - call.lead;
        if (entry < 0 || entry >= call.entries) continue;
        const double apart =
            value_of<D>(call.logits[blockIdx.y * call.logits_stride + call.lead + entry]) - largest;
        at_one += exp2(apart * kLog2E);
        at_scale += exp2(apart * scale);
    }
    raise(most, static_cast<float>(fabs(call.sums[at].at_one / at_one - 1)));
    raise(most, static_cast<float>(fabs(call.sums[at].at_scale / at_scale - 1)));
}

__global__ void count_unequal(WordRows a, WordRows b, std::uint32_t words, std::uint32_t turned,
                              std::uint32_t of_columns, unsigned long long* count) {
    const auto* left = static_cast<const std::uint16_t*>(a.words) + blockIdx.y * a.stride;
    const auto* right =
        static_cast<const std::uint16_t*>(b.words) + (blockIdx.y + turned) % of_columns * b.stride;
    unsigned long long own = 0;
    for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x)
        own += left[i] != right[i] ? 1 : 0;
    if (own != 0) atomicAdd(count, own);
}

template <Dtype D>
__global__ void count_again(HeadProduct call, const AskedBlock* asked, const std::uint16_t* again,
                            unsigned long long* count) {
    const std::uint32_t block = asked[blockIdx.x].block;
    const std::uint32_t column = asked[blockIdx.x].columns[threadIdx.y];
    if (column == kNoColumn) return;
    const std::int64_t entry = std::int64_t{block} * kBlockRows + threadIdx.x - call.lead;
    const bool is_there = entry >= 0 && entry < call.entries;
    const std::uint32_t right =
        is_there ? call.logits[column * call.logits_stride + call.lead + entry] : minus_infinity(D);
    const std::uint64_t at =
        (std::uint64_t{blockIdx.x} * kAskedColumns + threadIdx.y) * kBlockRows + threadIdx.x;
    if (again[at] != right) atomicAdd(count, 1ULL);
}

__global__ void read(const uint4* memory, std::uint64_t units, std::uint32_t* sink) {
    constexpr std::uint32_t kTogether = 8;
    std::uint32_t all = 0;
    const std::uint64_t threads = std::uint64_t{gridDim.x} * blockDim.x;
    for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
         i + (kTogether - 1) * threads < units; i += kTogether * threads) {
        uint4 each[kTogether];
#pragma unroll
        for (std::uint32_t k = 0; k < kTogether; ++k) each[k] = __ldcs(memory + i + k * threads);
#pragma unroll
        for (std::uint32_t k = 0; k < kTogether; ++k) all ^= each[k].x ^ each[k].y ^ each[k].z ^ each[k].w;
    }
    // Never, but the compiler does not know.
    if (all == 0x12345678U) *sink = all;
}

}  // namespace

void fill_random(std::uint16_t* codes, std::uint64_t count, Dtype dtype, std::uint64_t seed, float deviation,
                 cudaStream_t stream) {
    const auto kernel = dtype == Dtype::bf16 ? fill<Dtype::bf16> : fill<Dtype::fp16>;
    kernel<<<1056, 256, 0, stream>>>(codes, count, seed, deviation);
}

void raise_error(const HeadProduct& call, std::uint32_t columns, std::uint32_t* most, cudaStream_t stream) {
    HeadProduct some = call;
    some.columns = columns;
    const dim3 grid{(call.entries + kSide - 1) / kSide, (columns + kSide - 1) / kSide, 1};
    const auto kernel =
        call.dtype == Dtype::bf16 ? compare_products<Dtype::bf16> : compare_products<Dtype::fp16>;
    kernel<<<grid, dim3{kSide, kSide, 1}, 0, stream>>>(some, most);
}

void measure_rows(const HeadProduct& call, std::uint16_t* maxima, cudaStream_t stream) {
    const dim3 grid{(call.blocks() + 31) / 32, call.columns, 1};
    const auto kernel = call.dtype == Dtype::bf16 ? measure<Dtype::bf16> : measure<Dtype::fp16>;
    kernel<<<grid, 256, 0, stream>>>(call, maxima);
}

void raise_sum_error(const HeadProduct& call, std::uint32_t* most, cudaStream_t stream) {
    const dim3 grid{(call.blocks() + 127) / 128, call.columns, 1};
    const auto kernel = call.dtype == Dtype::bf16 ? compare_sums<Dtype::bf16> : compare_sums<Dtype::fp16>;
    kernel<<<grid, 128, 0, stream>>>(call, most);
}

void count_differences(WordRows a, WordRows b, std::uint32_t columns, std::uint32_t words,
                       std::uint32_t turned, std::uint32_t of_columns, unsigned long long* count,
                       cudaStream_t stream) {
    const dim3 grid{(words + 2047) / 2048, columns, 1};
    count_unequal<<<grid, 256, 0, stream>>>(a, b, words, turned, of_columns, count);
}

void count_again_differences(const HeadProduct& call, const void* asked, std::uint32_t blocks,
                             const std::uint16_t* again, unsigned long long* count, cudaStream_t stream) {
    const auto kernel = call.dtype == Dtype::bf16 ? count_again<Dtype::bf16> : count_again<Dtype::fp16>;
    kernel<<<blocks, dim3{kBlockRows, kAskedColumns, 1}, 0, stream>>>(
        call, static_cast<const AskedBlock*>(asked), again, count);
}

void read_all(const void* memory, std::uint64_t bytes, std::uint32_t* sink, cudaStream_t stream) {
    read<<<132 * 8, 256, 0, stream>>>(static_cast<const uint4*>(memory), bytes / 16, sink);
}

}  // namespace croupier::gpu_writer::head
