// The kernel that brings what samplers ask for of a lean step, and the memory by which the CPU tells it.
// Where a stream waits for the step's tokens, it is on the GPU before anybody asks: a thread that waits for
// that stream in a call into CUDA, as a copy to pageable memory does, keeps other threads from launching
// anything meanwhile.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "gpu_writer/lean_kernels.h"
#include "gpu_writer/lean_replay.h"

namespace croupier::gpu_writer {

// [pass: 40][entries that are posted in it: 24]. It only grows; another pass ends the kernel of this one.
struct QueueWord {
    static constexpr std::uint32_t kPostedBits = 24;

    static constexpr std::uint64_t of(std::uint64_t pass, std::uint64_t posted) {
        return pass << kPostedBits | posted;
    }
    static constexpr std::uint64_t pass(std::uint64_t word) { return word >> kPostedBits; }
    static constexpr std::uint32_t posted(std::uint64_t word) {
        return static_cast<std::uint32_t>(word) & ((1U << kPostedBits) - 1);
    }
};

// One block request: read with one load of 16 bytes by each of a few threads, a single round trip over the
// link.
struct alignas(256) QueueEntry {
    static constexpr std::uint32_t kListed = 112;
    // The blocks are too many for the list: the entry's bitmap has them.
    static constexpr std::uint32_t kInBitmap = 0xFFFFFFFFU;

    std::uint64_t answered;  // the device's address of the word that says so
    std::uint64_t word;
    std::uint32_t column;
    std::uint32_t count;
    std::uint32_t place;  // in the slice
    std::uint32_t reserved;
    std::uint16_t list[kListed];
};
static_assert(sizeof(QueueEntry) == 256);

// All are the device's addresses; all but `relay` of pinned memory.
struct QueueMemory {
    const std::uint64_t* word = nullptr;
    const QueueEntry* entries = nullptr;     // entry i stands at the place i % places
    const std::uint32_t* bitmaps = nullptr;  // [place]
    std::uint64_t* taken = nullptr;          // [place]: the word up to the entry that was read last
    std::uint64_t* relay = nullptr;          // in GPU memory, for one block alone reads over the link
    std::uint32_t places = 0;
    std::uint32_t bitmap_words = 0;  // of an entry; whole 16 bytes
};

// A column's token as a thread delivers it, in one store: with the ticket it is for, so that who finds the
// ticket has the token, and one round trip over the link brings both.
struct alignas(8) TokenWord {
    std::int32_t token = 0;
    std::uint32_t ticket = 0;
};

// A step's tokens, which the kernel brings too, each as soon as it is there: it then runs until it has all.
// Without columns it brings none.
struct DeliveredTokens {
    const TokenWord* from = nullptr;  // pinned
    std::int32_t* to = nullptr;
    std::uint32_t columns = 0;
    std::uint32_t ticket = 0;
};

// Before the first launch: see load_lean_kernels().
cudaError_t load_answer_kernel(proto::Dtype dtype);

// Where the GPU is told of rows, if not by LeanRows.
struct ToldRows {
    const FoundRows* found = nullptr;  // null: it is not told
    std::uint64_t opening = 0;
};

// Runs until the queue's word has another pass, or the tokens are there: nobody asks for more then.
cudaError_t launch_answering(const LeanRows& rows, const LeanSlice& slice, const QueueMemory& queue,
                             std::uint64_t pass, const DeliveredTokens& tokens, const ToldRows& told,
                             cudaStream_t stream);

}  // namespace croupier::gpu_writer
