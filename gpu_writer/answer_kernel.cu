#include "gpu_writer/answer_kernel.h"
#include "gpu_writer/device_words.cuh"
#include "gpu_writer/lean_slice.cuh"

namespace croupier::gpu_writer {
namespace {

using proto::Dtype;

constexpr std::uint32_t kAnswerThreads = 256;
constexpr std::uint32_t kWarp = 32;
// Beside the one that reads the desk's word. Each brings a wish by itself: few blocks as a rule, a row now
// and then.
constexpr std::uint32_t kAnswering = 16;
constexpr std::uint32_t kBitmapBits = 32;
constexpr std::uint32_t kWordsTogether = 64;

// Tells the others what the CPU posts. Many blocks that read over the link would slow each other, and the
// rows of other steps, down.
__device__ void relay_word(const Desk& desk, std::uint64_t opening) {
    if (threadIdx.x != 0) return;
    std::uint64_t word = 0;
    do {
        word = load_now(desk.word);
        // What the CPU stored before it is read after it.
        __threadfence_system();
        store_now(desk.relay, word);
    } while (DeskWord::opening(word) == opening);
}

// By all warps but the first, which relays meanwhile: tokens come behind the last wish, and at once.
__device__ void bring_tokens(const DeliveredTokens& tokens) {
    constexpr std::uint32_t kBringing = kAnswerThreads - kWarp;
    const std::uint32_t thread = threadIdx.x - kWarp;
    if (thread == 0 && tokens.columns > 0) {
        while (load_now(tokens.delivered) < tokens.ticket) __nanosleep(200);
        __threadfence_system();
    }
    asm volatile("bar.sync 1, %0;" : : "n"(kBringing) : "memory");
    for (std::uint32_t i = thread; i < tokens.columns; i += kBringing) tokens.to[i] = __ldcv(tokens.from + i);
}

// Whether entry `next` is posted, once it is; all of the block's threads are told.
__device__ bool is_posted(const Desk& desk, std::uint64_t opening, std::uint32_t next) {
    __shared__ bool posted;
    __syncthreads();
    if (threadIdx.x == 0) {
        std::uint64_t word = load_now(desk.relay);
        // Until this opening's first word the relay has an earlier one's.
        while (DeskWord::opening(word) <= opening &&
               (DeskWord::opening(word) < opening || DeskWord::posted(word) <= next)) {
            __nanosleep(100);
            word = load_now(desk.relay);
        }
        posted = DeskWord::opening(word) == opening;
        __threadfence();
    }
    __syncthreads();
    return posted;
}

struct FetchedEntry {
    static constexpr std::uint32_t kParts = sizeof(DeskEntry) / 16;
    uint4 parts[kParts];

    __device__ void fetch(const DeskEntry* entry) {
        if (threadIdx.x < kParts)
            parts[threadIdx.x] = __ldcv(reinterpret_cast<const uint4*>(entry) + threadIdx.x);
        __syncthreads();
    }
    __device__ const DeskEntry& get() const { return *reinterpret_cast<const DeskEntry*>(parts); }
};

template <Dtype D>
__device__ void lay_blocks(const RowReader<D>& reader, const LeanSlice& slice, std::uint32_t column,
                           const std::uint16_t* list, std::uint32_t count) {
    copy_blocks<D, kAnswerThreads>(
        reader, column, count, [&](std::uint32_t i) { return std::uint32_t{list[i]}; },
        [&](std::uint32_t i, std::uint32_t within, const Unit<D>& unit) {
            store_in_slice(slice, column, place_of(slice, list[i]), within, unit);
        });
}

// The blocks whose bits are set in some words of a bitmap, in no order.
__device__ std::uint32_t list_bits(const std::uint32_t* bitmap, std::uint32_t first_word, std::uint32_t words,
                                   std::uint16_t* list) {
    __shared__ std::uint32_t listed;
    if (threadIdx.x == 0) listed = 0;
    __syncthreads();
    if (threadIdx.x < kWordsTogether && first_word + threadIdx.x < words) {
        const std::uint32_t word = first_word + threadIdx.x;
        std::uint32_t bits = __ldcv(bitmap + word);
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
__device__ void lay_entry(const RowReader<D>& reader, const LeanSlice& slice, const Desk& desk,
                          const DeskEntry& entry, std::uint32_t place) {
    if (entry.count != DeskEntry::kInBitmap) {
        return lay_blocks<D>(reader, slice, entry.column, entry.list, entry.count);
    }
    __shared__ std::uint16_t list[kWordsTogether * kBitmapBits];
    const std::uint32_t* bitmap = desk.bitmaps + std::uint64_t{place} * desk.bitmap_words;
    for (std::uint32_t word = 0; word < desk.bitmap_words; word += kWordsTogether) {
        const std::uint32_t count = list_bits(bitmap, word, desk.bitmap_words, list);
        lay_blocks<D>(reader, slice, entry.column, list, count);
        __syncthreads();
    }
}

template <Dtype D>
__global__ void __launch_bounds__(kAnswerThreads)
    answer_wishes(LeanRows rows, LeanSlice slice, Desk desk, std::uint64_t opening, DeliveredTokens tokens) {
    __shared__ FetchedEntry fetched;
    if (blockIdx.x == 0) {
        if (threadIdx.x < kWarp) return relay_word(desk, opening);
        return bring_tokens(tokens);
    }
    const SliceRows in_order = rows_in_order(rows);
    const RowReader<D> reader(in_order);
    for (std::uint32_t next = blockIdx.x - 1; is_posted(desk, opening, next); next += kAnswering) {
        const std::uint32_t place = next % desk.places;
        fetched.fetch(desk.entries + place);
        lay_entry<D>(reader, slice, desk, fetched.get(), place);
        __syncthreads();
        if (threadIdx.x != 0) continue;
        store_now(desk.taken + place, DeskWord::of(opening, std::uint64_t{next} + 1));
        // Who sees the word sees the blocks, on the CPU too.
        __threadfence_system();
        store_now(reinterpret_cast<std::uint64_t*>(fetched.get().answered), fetched.get().word);
    }
}

template <Dtype D>
struct Answering {
    static void launch(const LeanRows& rows, const LeanSlice& slice, const Desk& desk, std::uint64_t opening,
                       const DeliveredTokens& tokens, cudaStream_t stream) {
        answer_wishes<D><<<1 + kAnswering, kAnswerThreads, 0, stream>>>(rows, slice, desk, opening, tokens);
    }
};

template <Dtype D>
struct Loading {
    static void launch(cudaError_t* status) {
        cudaFuncAttributes attributes;
        *status = cudaFuncGetAttributes(&attributes, answer_wishes<D>);
    }
};

}  // namespace

cudaError_t load_answer_kernel(Dtype dtype) {
    cudaError_t status = cudaSuccess;
    launch_of<Loading>(dtype, &status);
    return status;
}

cudaError_t launch_answering(const LeanRows& rows, const LeanSlice& slice, const Desk& desk,
                             std::uint64_t opening, const DeliveredTokens& tokens, cudaStream_t stream) {
    launch_of<Answering>(rows.dtype, rows, slice, desk, opening, tokens, stream);
    return cudaGetLastError();
}

}  // namespace croupier::gpu_writer
