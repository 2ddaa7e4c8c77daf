// A kernel that answers block requests and brings tokens, and how it does; where blocks come from, its last
// argument knows.
#pragma once

#include "gpu_writer/answer_kernel.h"
#include "gpu_writer/device_words.cuh"
#include "gpu_writer/lean_rows.cuh"

namespace croupier::gpu_writer {

using proto::Dtype;

constexpr std::uint32_t kAnswerThreads = 256;
// Beside the one that reads the queue's word. Each brings a block request by itself: few blocks as a rule, a
// row now and then.
constexpr std::uint32_t kAnswering = 16;
constexpr std::uint32_t kBitmapBits = 32;
constexpr std::uint32_t kWordsTogether = 64;

// A thread's own tokens, one after the other.
class Bringing {
  public:
    __device__ explicit Bringing(const DeliveredTokens& tokens)
        : tokens_(tokens), column_(threadIdx.x == 0 ? tokens.columns : threadIdx.x - 1) {}

    __device__ bool has_more() const { return column_ < tokens_.columns; }
    __device__ std::uint64_t load() const {
        return load_now(reinterpret_cast<const std::uint64_t*>(tokens_.from + column_));
    }
    // What load() found: whether that was the token.
    __device__ bool take(std::uint64_t word) {
        if (static_cast<std::uint32_t>(word >> 32U) != tokens_.ticket) return false;
        tokens_.to[column_] = static_cast<std::int32_t>(word);
        column_ += kAnswerThreads - 1;
        return true;
    }

  private:
    const DeliveredTokens& tokens_;
    std::uint32_t column_;
};

// By one block: its first thread tells the others what the CPU posts, all others bring tokens. Many blocks
// that read over the link would slow each other, and the rows of other steps, down. The loads of a warp
// travel together: where its first one holds all tokens, the kernel ends with the round trip that brought the
// last; of more tokens, one later.
__device__ inline void serve_link(const QueueMemory& queue, std::uint64_t pass,
                                  const DeliveredTokens& tokens) {
    __shared__ std::uint32_t brought;
    if (threadIdx.x == 0) brought = 0;
    __syncthreads();
    const bool relays = threadIdx.x == 0;
    const bool has_tokens = tokens.columns > 0;
    Bringing bringing(tokens);
    bool open = true;
    std::uint64_t told = 0;
    while (__any_sync(~0U, (relays && open) || bringing.has_more())) {
        // Two loads, in flight together: neither waits for the other's round trip.
        std::uint64_t posted = 0;
        std::uint64_t token = 0;
        if (relays) posted = load_now(queue.word);
        if (bringing.has_more()) token = bringing.load();
        if (bringing.has_more() && bringing.take(token)) atomicAdd(&brought, 1);
        __syncwarp();
        if (!relays || !open) continue;
        const bool done = has_tokens && load_now(&brought) == tokens.columns;
        const std::uint64_t word = done ? QueueWord::of(pass + 1, 0) : posted;
        open = QueueWord::pass(word) <= pass;
        if (word == told) continue;
        told = word;
        // What the CPU stored before it is read after it.
        __threadfence_system();
        // Never back: a later pass's kernel, in another stream, may have been here.
        atomicMax(reinterpret_cast<unsigned long long*>(queue.relay), static_cast<unsigned long long>(word));
    }
}

// Whether entry `next` is posted, once it is; all of the block's threads are told. Only who serves the link
// looks for it there: of many that ask for one word at once, each waits for the one before it, a microsecond
// each.
__device__ inline bool is_posted(const QueueMemory& queue, std::uint64_t pass, std::uint32_t next) {
    __shared__ bool posted;
    __syncthreads();
    if (threadIdx.x == 0) {
        // Until this pass's first word it has an earlier one's.
        std::uint64_t word = load_now(queue.relay);
        while (QueueWord::pass(word) <= pass &&
               (QueueWord::pass(word) < pass || QueueWord::posted(word) <= next)) {
            __nanosleep(100);
            word = load_now(queue.relay);
        }
        posted = QueueWord::pass(word) == pass;
        __threadfence_system();
    }
    __syncthreads();
    return posted;
}

struct FetchedEntry {
    static constexpr std::uint32_t kParts = sizeof(QueueEntry) / 16;
    uint4 parts[kParts];

    __device__ void fetch(const QueueEntry* entry) {
        if (threadIdx.x < kParts)
            parts[threadIdx.x] = __ldcv(reinterpret_cast<const uint4*>(entry) + threadIdx.x);
        __syncthreads();
    }
    __device__ const QueueEntry& get() const { return *reinterpret_cast<const QueueEntry*>(parts); }
};

// All blocks stand in the rows.
struct StoredBlocks {
    template <Dtype D>
    __device__ void lay(const RowReader<D>& reader, const LeanSlice& slice, const QueueEntry& entry,
                        const std::uint16_t* list, std::uint32_t count) const {
        copy_blocks<D, kAnswerThreads>(
            reader, entry.column, count, [&](std::uint32_t i) { return std::uint32_t{list[i]}; },
            [&](std::uint32_t i, std::uint32_t within, const Unit<D>& unit) {
                store_in_slice(slice, entry.place, list[i], within, unit);
            });
    }
};

// The blocks whose bits are set in some words of a bitmap, in no order.
__device__ inline std::uint32_t list_bits(const std::uint32_t* bitmap, std::uint32_t first_word,
                                          std::uint32_t words, std::uint16_t* list) {
    __shared__ std::uint32_t listed;
    if (threadIdx.x == 0) listed = 0;
    __syncthreads();
    if (threadIdx.x < kWordsTogether && first_word + threadIdx.x < words) {
        const std::uint32_t word = first_word + threadIdx.x;
        std::uint32_t bits = __ldcv(bitmap + word);
        std::uint32_t at = atomicAdd(&listed, static_cast<std::uint32_t>(__popc(bits)));
        for (; bits != 0; bits &= bits - 1) {
            const auto bit = static_cast<std::uint32_t>(__ffs(static_cast<int>(bits))) - 1;
            list[at++] = static_cast<std::uint16_t>(word * kBitmapBits + bit);
        }
    }
    __syncthreads();
    return listed;
}

template <Dtype D, typename Blocks>
__device__ void lay_entry(const RowReader<D>& reader, const LeanSlice& slice, const QueueMemory& queue,
                          const QueueEntry& entry, std::uint32_t place, const Blocks& blocks) {
    if (entry.count != QueueEntry::kInBitmap) {
        return blocks.template lay<D>(reader, slice, entry, entry.list, entry.count);
    }
    __shared__ std::uint16_t list[kWordsTogether * kBitmapBits];
    const std::uint32_t* bitmap = queue.bitmaps + std::uint64_t{place} * queue.bitmap_words;
    for (std::uint32_t word = 0; word < queue.bitmap_words; word += kWordsTogether) {
        const std::uint32_t count = list_bits(bitmap, word, queue.bitmap_words, list);
        blocks.template lay<D>(reader, slice, entry, list, count);
        __syncthreads();
    }
}

// Where the opening's rows stand, once they do: those of a step that is requested are soon there if they are
// copied. False, to all threads: this pass is over, and nobody waits for its answers.
__device__ inline bool read_found(const ToldRows& of, const QueueMemory& queue, std::uint64_t pass,
                                  LeanRows& rows) {
    const FoundRows& found = *of.found;
    __shared__ std::uint64_t told[4];
    __syncthreads();
    if (threadIdx.x == 0) {
        while (load_now(&found.opening) < of.opening && QueueWord::pass(load_now(queue.relay)) <= pass) {
            __nanosleep(100);
        }
        told[0] = load_now(&found.opening);
        __threadfence();
        told[1] = reinterpret_cast<std::uint64_t>(load_now(&found.logits));
        told[2] = load_now(&found.row_stride);
        told[3] = reinterpret_cast<std::uint64_t>(load_now(&found.row_of));
    }
    __syncthreads();
    rows.logits = reinterpret_cast<const void*>(told[1]);
    rows.row_stride = told[2];
    rows.row_of = reinterpret_cast<const std::int32_t*>(told[3]);
    return told[0] == of.opening;
}

// By one CUDA block.
template <Dtype D, typename Blocks>
__device__ void answer_entry(LeanRows rows, const LeanSlice& slice, const QueueMemory& queue,
                             std::uint64_t pass, std::uint32_t number, const ToldRows& rows_told,
                             const Blocks& blocks) {
    __shared__ FetchedEntry fetched;
    const std::uint32_t place = number % queue.places;
    if (rows_told.found != nullptr && !read_found(rows_told, queue, pass, rows)) return;
    fetched.fetch(queue.entries + place);
    (void)find_row<D>(rows, fetched.get().column);
    const SliceRows in_order = rows_in_order(rows);
    const RowReader<D> reader(in_order);
    lay_entry<D>(reader, slice, queue, fetched.get(), place, blocks);
    __syncthreads();
    if (threadIdx.x != 0) return;
    store_now(queue.taken + place, QueueWord::of(pass, std::uint64_t{number} + 1));
    // Who sees the word sees the blocks, on the CPU too.
    __threadfence_system();
    store_now(reinterpret_cast<std::uint64_t*>(fetched.get().answered), fetched.get().word);
}

template <Dtype D, typename Blocks>
__global__ void __launch_bounds__(kAnswerThreads)
    answer_requests(LeanRows rows, LeanSlice slice, QueueMemory queue, std::uint64_t pass,
                    DeliveredTokens tokens, ToldRows rows_told, Blocks blocks) {
    if (blockIdx.x == 0) return serve_link(queue, pass, tokens);
    for (std::uint32_t next = blockIdx.x - 1; is_posted(queue, pass, next); next += kAnswering)
        answer_entry<D>(rows, slice, queue, pass, next, rows_told, blocks);
}

template <Dtype D, typename Blocks>
void launch_answers(const LeanRows& rows, const LeanSlice& slice, const QueueMemory& queue,
                    std::uint64_t pass, const DeliveredTokens& tokens, const ToldRows& told,
                    const Blocks& blocks, cudaStream_t stream) {
    cudaLaunchConfig_t config{};
    config.gridDim = 1 + kAnswering;
    config.blockDim = kAnswerThreads;
    config.stream = stream;
    (void)cudaLaunchKernelEx(&config, answer_requests<D, Blocks>, rows, slice, queue, pass, tokens, told,
                             blocks);
}

}  // namespace croupier::gpu_writer
