// The threads of a sampler process, which share a step.
#pragma once

#include <oneapi/tbb/task_arena.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace croupier::daemon {

class ThreadTeam {
  public:
    explicit ThreadTeam(std::uint32_t threads) : count_(threads), arena_(static_cast<int>(threads)) {}

    std::uint32_t count() const { return count_; }

    // body(0) to body(count - 1), each on a thread of its own if there is one to spare; returns behind the
    // last.
    template <typename Body>
    void run(Body&& body) {
        // As the library hands over, where ThreadSanitizer sees it; parts do not wait for each other.
        struct Work {
            decltype(&body) what;
            std::atomic<bool> given{false};
            std::atomic<std::size_t> done{0};
        } work{&body};
        struct Done {
            Work& of;
            ~Done() { of.done.fetch_add(1, std::memory_order_release); }
        };
        work.given.store(true, std::memory_order_release);
        const auto part = [](void* shared, std::size_t thread) {
            Work& ours = *static_cast<Work*>(shared);
            static_cast<void>(ours.given.load(std::memory_order_acquire));
            const Done done{ours};
            (*ours.what)(thread);
        };
        run_unseen(part, &work);
        static_cast<void>(work.done.load(std::memory_order_acquire));
    }

  private:
    // Not instrumented by ThreadSanitizer (CMakeLists.txt), as the library is not.
    void run_unseen(void (*part)(void* work, std::size_t thread), void* work);

    std::uint32_t count_;
    tbb::task_arena arena_;
};

}  // namespace croupier::daemon
