// The sampler processes: spawned, watched, and replaced when they die.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "config/config.h"
#include "daemon/worker/segment_channel.h"
#include "event_log/event_log.h"
#include "shm/plane.h"

namespace croupier::daemon {

class SamplerPool {
  public:
    // `on_death` frees what the dead incarnation had claimed, and suspects what it was at; it runs after the
    // process is reaped, so no store of the dead one can come after it.
    using OnDeath = std::function<void(std::uint32_t incarnation, const proto::PreparedColumn& at)>;

    SamplerPool(const config::Config& config, shm::Plane& plane, SegmentChannel& segments, int event_fd,
                OnDeath on_death);
    ~SamplerPool();
    SamplerPool(const SamplerPool&) = delete;
    SamplerPool& operator=(const SamplerPool&) = delete;

    void start();
    // After SIGCHLD: accounts for the dead and restarts them, now or when their back-off is over.
    void reap();
    // Regularly: restarts whose time has come, and ends samplers whose heart stands still.
    void housekeep();
    void configure(const config::Samplers& samplers);
    // Whether samplers decide, and none of the others is on its first way up: one that cannot start must not
    // keep the rest from being used.
    bool ready() const;
    // The NUMA node of most samplers' cores; -1: they are not pinned.
    std::int32_t node() const;
    // Tells all to end, and waits for them.
    void stop();

  private:
    using Clock = std::chrono::steady_clock;
    struct Child {
        std::int32_t pid = 0;  // 0: waits for its restart
        std::string cores;
        Clock::time_point spawned;
        Clock::time_point restart_at;
        std::uint32_t quick_deaths = 0;
        bool failed = false;                  // at least once to start, or it ended
        std::uint64_t beat = 0;               // the last one that was seen
        std::chrono::nanoseconds silence{0};  // since then, as far as this process was awake to see it
        event_log::Settings log;              // what it was told last
    };

    proto::SamplerEntry& entry(std::size_t index) const { return plane_->header().samplers[index]; }
    void spawn(std::size_t index);
    void handle_exit(std::size_t index, int status);
    void follow_log_settings(std::size_t index);
    void listen(std::size_t index, std::chrono::nanoseconds awake);
    std::chrono::milliseconds longest_silence(std::size_t index) const;
    std::vector<std::string> arguments(std::size_t index, int plane_fd, int segments_fd) const;
    shm::Result<std::int32_t> start_process(std::size_t index);
    void tune_samplers() const;

    config::Config config_;
    shm::Plane* plane_;
    SegmentChannel* segments_;
    int event_fd_;
    OnDeath on_death_;
    std::vector<Child> children_;
    Clock::time_point last_housekeeping_ = Clock::now();
    std::uint32_t next_incarnation_ = 1;
    bool stopping_ = false;
};

}  // namespace croupier::daemon
