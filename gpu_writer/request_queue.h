// One slot's block requests, on their way to a kernel that waits on the GPU for them
// (gpu_writer/answer_kernel.h).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "gpu_writer/answer_kernel.h"
#include "gpu_writer/cuda_memory.h"
#include "gpu_writer/stream_wait.h"

namespace croupier::gpu_writer {

// A column's blocks, by the bits of a bitmap of the rank's blocks.
struct QueuedRequest {
    std::uint32_t column = 0;
    std::uint32_t place = 0;  // in the slice
    std::span<const std::uint64_t> blocks;
    std::uint64_t answered = 0;  // the device's address of what gets the word when they are laid
    std::uint64_t word = 0;
};

class RequestQueue {
  public:
    // Loads the kernel too: CUDA does so late otherwise, and waits for the GPU then, where a stream waits for
    // what this thread is about to do.
    static shm::Result<std::unique_ptr<RequestQueue>> make(proto::Dtype dtype, std::uint32_t blocks);
    RequestQueue(const RequestQueue&) = delete;
    RequestQueue& operator=(const RequestQueue&) = delete;
    ~RequestQueue();

    // What is answered from, and in whose step.
    struct Opening {
        LeanRows rows;
        LeanSlice slice;
        std::uint64_t step = 0;
        std::uint64_t number = 0;  // counted upwards, from 1 on
        // Where the step is sent; nothing: a CUDA graph's replay sends it, in a stream that nobody tells of.
        std::optional<cudaStream_t> worker = std::nullopt;
        cudaEvent_t there = nullptr;       // null, or the rows are there behind it, in `worker` too
        const FoundRows* found = nullptr;  // null, or where the GPU is told of the rows
        bool rows_stay = false;            // until the slot's next step, whoever waits for what
    };
    // Block requests are answered from now on, until the opening is closed. Nothing is enqueued: a stream
    // that waits beside the model's delays each of the model's kernels by a third of a microsecond, 130 us in
    // a step of vLLM's (measured on an H200).
    void open(const Opening& opening);
    // Whether it is the step's block requests that are answered, and not those of one that had the slot
    // before.
    bool is_open_for(std::uint64_t step) const;
    bool rows_stay(std::uint64_t opening) const;
    // In a stream that waits for the step's tokens anyway: the kernel brings them too. Behind the step in its
    // own stream it runs from the step's end on; in another one, where the model may run beside it, from the
    // first block request on, or the pass's end. The pass, or 0 where it has its kernel by now.
    shm::Result<std::uint64_t> answer_in(cudaStream_t stream, const DeliveredTokens& tokens);
    // What follows in `stream` runs when the kernels of earlier openings have ended. False: they have, and
    // the stream waits for nothing.
    shm::Result<bool> hold(cudaStream_t stream) const;

    // By one thread. Calls into CUDA for a pass's first block request where no stream waits for its tokens:
    // on a stream of the queue's own. What is posted behind the last pass is dropped. False: not now, for the
    // opening is not open, the GPU has not taken so many earlier ones, the pass has just ended and another
    // one goes on, or the kernel could not be launched, which the next call tries again.
    bool post(std::uint64_t opening, const QueuedRequest& request);
    void close(std::uint64_t opening);
    // Whatever is opened later.
    void close_for_good();
    // Kernels may answer in one opening one after another, each in a pass of its own. The kernel of this pass
    // ends. Where rows stay another one answers what is posted from then on; what was posted by then is to be
    // posted again.
    void end_pass(std::uint64_t pass);
    // The same where the kernel is in no stream but the queue's own: nobody who waits for the GPU shall wait
    // for it. False: there is none, or it has to stay.
    bool rest(std::uint64_t opening);

  private:
    // The GPU takes block requests faster than samplers can have many.
    static constexpr std::uint32_t kPlaces = 256;

    RequestQueue(StreamWait wait, std::uint32_t blocks);
    shm::Result<bool> prepare();
    // Another thread may close meanwhile.
    bool raise_word(std::uint64_t to);
    // The pass then has its kernel; where it fails, the pass is over.
    shm::Result<bool> enqueue(cudaStream_t stream, const DeliveredTokens& tokens);
    shm::Result<bool> launch(cudaStream_t stream, const DeliveredTokens& tokens);
    // 0: the opening is not the present one, or it is closed.
    std::uint64_t pass_of(std::uint64_t opening) const;
    void end_pass_now(std::uint64_t pass);
    bool has_kernel(std::uint64_t pass);
    bool has_entries(std::uint64_t pass);
    bool has_place(std::uint64_t pass, std::uint32_t entry) const;
    bool is_free(std::uint64_t pass, std::uint32_t slice_place);
    void write_entry(std::uint32_t place, const QueuedRequest& request);

    StreamWait wait_;
    std::uint32_t bitmap_words_;
    PinnedMemory<std::uint64_t> word_;
    PinnedMemory<QueueEntry> entries_;
    PinnedMemory<std::uint64_t> bitmaps_;
    PinnedMemory<std::uint64_t> taken_;
    DeviceMemory<std::uint64_t> relay_;
    QueueMemory addresses_;
    int device_ = 0;
    Stream stream_;
    Event ended_;
    Event before_;  // behind the kernel of the pass before that, of the same opening

    // The thread that works the streams, and the one that posts.
    mutable std::mutex mutex_;
    Opening opened_;
    std::uint64_t first_pass_ = 0;  // of the opening
    std::uint64_t pass_ = 0;        // its last; none is counted twice
    std::uint64_t enqueued_ = 0;    // the last pass that has a kernel; `ended_` is behind it
    bool on_own_stream_ = false;    // that kernel
    bool is_closed_ = true;

    std::uint64_t posted_in_ = 0;    // the pass of the last block request
    std::uint32_t posted_ = 0;       // in it
    std::uint64_t has_entries_ = 0;  // the pass that has them for itself
    struct Posted {
        std::uint64_t pass = 0;
        std::uint32_t entry = 0;
    };
    std::vector<Posted> last_of_;  // by place in the slice
};

}  // namespace croupier::gpu_writer
