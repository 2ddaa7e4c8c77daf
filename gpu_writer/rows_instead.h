// Lean steps of a session that an older build has taken over, which reads rows alone: all of their rows are
// laid, as what samplers ask for is, and the slice is published as one of rows.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "gpu_writer/answer_desk.h"
#include "gpu_writer/cuda_memory.h"
#include "gpu_writer/tile_layout.h"
#include "gpu_writer/wish_server.h"
#include "shm/segment.h"

namespace croupier::gpu_writer {

class RowsInstead {
  public:
    // As AnswerDesk::post() takes it.
    using Post = std::function<bool(const WatchedStep& step, const DeskWish& wish)>;

    // `ring`: called when a slice is published. The segment and the order outlive it.
    static shm::Result<std::unique_ptr<RowsInstead>> make(const shm::Segment& segment, std::uint32_t rank,
                                                          std::span<const std::uint32_t> order, Post post,
                                                          std::function<void()> ring);

    // Of a lean step that is complete and not decided, by one thread, until it is published.
    void go_on(const WatchedStep& step);

  private:
    using Clock = std::chrono::steady_clock;
    struct OfSlot {
        std::uint64_t opening = 0;  // of the step that is laid; 0: none
        std::uint32_t next = 0;     // column that is to be posted
        Clock::time_point posted;
        bool has_maxima = false;
    };

    RowsInstead(const shm::Segment& segment, std::uint32_t rank, std::span<const std::uint32_t> order,
                Post post, std::function<void()> ring);
    std::uint64_t& word_of(std::uint32_t slot, std::uint32_t column) const;
    bool post_all(const WatchedStep& step, OfSlot& own);
    bool all_laid(const WatchedStep& step) const;
    void publish(const BegunStep& step, OfSlot& own) const;

    const shm::Segment& segment_;
    std::uint32_t rank_;
    std::span<const std::uint32_t> order_;
    Post post_;
    std::function<void()> ring_;
    std::vector<std::uint64_t> all_;  // a bit for each of the rank's blocks
    std::vector<OfSlot> slots_;
    PinnedMemory<std::uint64_t> words_;  // [slot][column]: the opening in which it was laid
    std::uint64_t* words_address_ = nullptr;
};

}  // namespace croupier::gpu_writer
