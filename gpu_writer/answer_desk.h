// One slot's wishes, on their way to a kernel that waits on the GPU for them (gpu_writer/answer_kernel.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "gpu_writer/answer_kernel.h"
#include "gpu_writer/cuda_memory.h"
#include "gpu_writer/stream_wait.h"

namespace croupier::gpu_writer {

// A column's blocks, by the bits of a bitmap of the rank's blocks.
struct DeskWish {
    std::uint32_t column = 0;
    std::span<const std::uint64_t> blocks;
    std::uint64_t answered = 0;  // the device's address of what gets the word when they are laid
    std::uint64_t word = 0;
};

class AnswerDesk {
  public:
    // None is counted so far; half of what a stream's wait tells from a number that is passed.
    static constexpr std::uint64_t kEveryOpening = std::uint64_t{1} << 38U;

    // Loads the kernel too: CUDA does so late otherwise, and waits for the GPU then, where a stream waits for
    // what this thread is about to do.
    static shm::Result<std::unique_ptr<AnswerDesk>> make(proto::Dtype dtype, std::uint32_t blocks);
    AnswerDesk(const AnswerDesk&) = delete;
    AnswerDesk& operator=(const AnswerDesk&) = delete;
    ~AnswerDesk();

    // Enqueued on a stream of the desk's own: from the first wish of this opening on the kernel runs, until
    // it is closed. Openings are counted upwards, from 1 on; one that was closed before has no kernel.
    shm::Result<bool> open(const LeanRows& rows, const LeanSlice& slice, std::uint64_t opening);
    // What follows in `stream` runs when the kernels of earlier openings have ended.
    shm::Result<bool> hold(cudaStream_t stream) const;

    // By one thread, and without a call into CUDA. May wait for the GPU to take earlier wishes; what is
    // posted to an opening that is closed is dropped.
    void post(std::uint64_t opening, const DeskWish& wish);
    void close(std::uint64_t opening);

  private:
    // The GPU takes wishes faster than samplers can have many.
    static constexpr std::uint32_t kPlaces = 256;

    AnswerDesk(StreamWait wait, std::uint32_t blocks);
    shm::Result<bool> prepare();
    // Another thread may close meanwhile.
    bool raise_word(std::uint64_t to);
    bool wait_for_place(std::uint64_t opening, std::uint32_t entry) const;
    void write_entry(std::uint32_t place, const DeskWish& wish);

    StreamWait wait_;
    std::uint32_t bitmap_words_;
    PinnedMemory<std::uint64_t> word_;
    PinnedMemory<DeskEntry> entries_;
    PinnedMemory<std::uint64_t> bitmaps_;
    PinnedMemory<std::uint64_t> taken_;
    DeviceMemory<std::uint64_t> relay_;
    Desk addresses_;
    Stream stream_;
    Event ended_;
    std::uint64_t opening_ = 0;  // of the last wish
    std::uint32_t posted_ = 0;   // in it
};

}  // namespace croupier::gpu_writer
