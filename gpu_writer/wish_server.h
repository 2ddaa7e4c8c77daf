// Answers what samplers ask for of lean steps, by a thread of the writer's own, until each step is decided.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "gpu_writer/begun_steps.h"
#include "shm/logits_forecast.h"

namespace croupier::gpu_writer {

struct Wish {
    std::uint32_t column = 0;
    std::uint64_t word = 0;               // that answers it, where the rank's answer stands
    std::span<const std::uint64_t> bits;  // of all blocks of the row
};

// The part of a wish that is a rank's, of so many blocks from its first one on: bit 0 is that.
void own_bits(std::span<const std::uint64_t> all, std::uint32_t first_block, std::uint32_t blocks,
              std::span<std::uint64_t> own);

// A step whose rows stay until it is decided.
struct WatchedStep {
    BegunStep begun;
    std::uint64_t opening = 0;  // the writer's own count of what it has watched
    std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
};

class WishServer {
  public:
    // `answer` lays what is the rank's of a wish at its place in the slice, and then stores its word, or has
    // that done. False: not now, and it is called again. It is called by the server's thread.
    using Answer = std::function<bool(const WatchedStep& step, const Wish& wish)>;
    // The step is answered no more; also called by the thread that watches it anew.
    using End = std::function<void(const WatchedStep& step)>;
    // Of a step that is not decided for long: whether answers were on their way that will not come now.
    using Rest = std::function<bool(const WatchedStep& step)>;
    // Of one that is complete and not decided, at each look.
    using Follow = std::function<void(const WatchedStep& step)>;
    struct Calls {
        Answer answer;
        End end = [](const WatchedStep&) {};
        Rest rest = [](const WatchedStep&) { return false; };
        // Its rows stay until the slot's next step, however long that takes.
        Rest stays = [](const WatchedStep&) { return false; };
        Follow follow = [](const WatchedStep&) {};
    };

    WishServer(const shm::Segment& segment, std::uint32_t rank, Calls calls);
    ~WishServer();
    WishServer(const WishServer&) = delete;
    WishServer& operator=(const WishServer&) = delete;

    // Before anything of the step is laid. Returns when the step that had its slot before is answered no
    // more: that may have been given up.
    void watch(const WatchedStep& step);
    // Whatever step has the slot is answered no more, and none of it is under way when this returns.
    void leave_slot(std::uint32_t slot);
    // What was on its way to the step's samplers will not come: `answer` is called once more for each wish.
    void ask_again(std::uint64_t step);

  private:
    struct Found {
        std::size_t wishes = 0;
        bool logits = false;  // of some step they are there
        bool fresh = false;   // since the last look
    };

    template <typename Which>
    bool stop_watching(Which which);
    void serve();
    Found look_at(std::span<const WatchedStep> steps);
    bool is_over(const BegunStep& step) const;
    bool is_too_old(const WatchedStep& step, std::chrono::steady_clock::time_point now) const;
    void let_rest(const WatchedStep& step, std::chrono::steady_clock::time_point now);
    void forget_answers(std::uint64_t step);
    bool note_ready(std::uint64_t step);
    std::size_t look(const WatchedStep& step, bool at_all);
    void forget_ended();
    bool session_over() const;

    const shm::Segment& segment_;
    std::uint32_t rank_;
    Calls calls_;
    std::vector<std::uint64_t> seen_;  // of each slot's board
    // [slot][column]: the last word of the slot's step, which may be on its way still.
    std::vector<std::uint64_t> answered_;
    std::vector<std::uint64_t> answered_in_;                     // by slot: in which step
    std::vector<WatchedStep> ended_;                             // as one look at all of them found
    std::vector<std::chrono::steady_clock::time_point> rested_;  // by slot
    std::chrono::steady_clock::time_point looked_at_all_;
    std::chrono::steady_clock::time_point last_wish_;
    shm::LogitsForecast forecast_;
    std::uint64_t next_ready_ = 0;  // a step before it has had its logits
    std::mutex mutex_;
    std::mutex looking_;  // held while steps are looked at; behind mutex_
    std::condition_variable changed_;
    std::deque<WatchedStep> watched_;
    std::vector<std::uint64_t> again_;  // steps
    bool over_ = false;
    std::thread thread_;
};

}  // namespace croupier::gpu_writer
