// The watcher thread of a rank's writer. It watches the steps that are begun: it rings the samplers' bell
// when a GPU's stores have landed, because these wake nobody, and has requests for blocks of lean steps
// answered until each step is decided.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "gpu_writer/logits_pace.h"
#include "gpu_writer/request_answers.h"
#include "gpu_writer/watched_step.h"
#include "shm/logits_forecast.h"

namespace croupier::gpu_writer {

class StepWatcher {
  public:
    // All are called by the watcher's thread; `end` also by the thread that begins or forgets a step.
    struct Calls {
        // Empty where all of a step stands in its slice.
        RequestAnswers::Answer answer = {};
        // All of the step's logits are there, or it is decided already.
        std::function<void(std::uint64_t step)> landed = [](std::uint64_t) {};
        // The step is answered no more.
        std::function<void(const WatchedStep&)> end = [](const WatchedStep&) {};
        // Of a step that is not decided for long: whether answers were on their way that will not come now.
        std::function<bool(const WatchedStep&)> rest = [](const WatchedStep&) { return false; };
        // Whether the step's rows stay until the slot's next step, however long that takes.
        std::function<bool(const WatchedStep&)> stays = [](const WatchedStep&) { return false; };
        // Whether the writer's stores ring nothing by themselves.
        bool rings = false;
    };

    // A GPU that waits for a request that never comes, because the daemon is gone for good, blocks every
    // caller that waits for the GPU. It waits as long as engines wait for one call of a worker.
    static constexpr std::chrono::seconds kAnsweredAtMost{300};

    // The segment outlives it. Once a step is sent it is answered for `answered_at_most`,
    // or without a limit where its rows stay.
    StepWatcher(const shm::Segment& segment, std::uint32_t rank, Calls calls,
                std::chrono::nanoseconds answered_at_most = kAnsweredAtMost);
    ~StepWatcher();
    StepWatcher(const StepWatcher&) = delete;
    StepWatcher& operator=(const StepWatcher&) = delete;

    // Before anything of the step is laid: its opening. Returns when the step that had its slot before is
    // answered no more: that may have been given up.
    std::uint64_t watch(const BegunStep& step);
    // Steps of later tickets than `finished` are watched no more, and nothing of them is under way when this
    // returns.
    void forget_after(std::uint64_t finished);
    // What was on its way to the step's samplers will not come: each request is answered once more.
    void repeat_answers(std::uint64_t step);

  private:
    using Clock = std::chrono::steady_clock;
    struct Found {
        bool logits = false;    // of some step they are there
        bool progress = false;  // since the last look
    };
    // When a step's logits were seen first.
    struct Sent {
        std::uint64_t opening = 0;
        Clock::time_point at;
    };

    template <typename Which>
    bool stop_watching(Which which);
    void serve();
    Found look_at(std::span<const WatchedStep> steps);
    bool is_over(const WatchedStep& step, Clock::time_point now);
    Clock::duration answered_for(const WatchedStep& step, Clock::time_point now);
    bool session_over() const;
    void ring_if_landed(const BegunStep& step, bool all);
    void let_rest(const WatchedStep& step, Clock::time_point now);
    bool note_ready(std::uint64_t step, std::uint64_t ready_ns);
    void forget_ended();
    void pause(std::unique_lock<std::mutex>& lock, const Found& found, std::uint64_t seen);
    std::chrono::nanoseconds until_next_look(bool has_logits, Clock::time_point now) const;

    const shm::Segment& segment_;
    std::uint32_t rank_;
    Calls calls_;
    std::chrono::nanoseconds answered_at_most_;

    // The thread's own.
    std::optional<RequestAnswers> answers_;
    shm::LogitsForecast forecast_{kLongestStepNs};
    std::uint64_t next_ready_ = 0;           // a step before it has had its logits
    std::uint64_t rung_for_first_ = ~0ULL;   // the step of which some tiles have landed
    std::vector<WatchedStep> ended_;         // as one look at all of them found
    std::vector<Clock::time_point> rested_;  // by slot
    std::vector<Sent> sent_;                 // by slot
    Clock::time_point looked_at_all_;
    Clock::time_point last_request_;
    Clock::time_point last_progress_;

    std::mutex mutex_;
    std::mutex looking_;  // held while steps are looked at; behind mutex_
    std::condition_variable changed_;
    std::deque<WatchedStep> watched_;
    std::uint64_t openings_ = 0;
    std::uint64_t asked_ = 0;              // grows with everything that other threads ask of this one
    std::vector<std::uint64_t> repeated_;  // steps
    bool over_ = false;
    std::thread thread_;
};

}  // namespace croupier::gpu_writer
