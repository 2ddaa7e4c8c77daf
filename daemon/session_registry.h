// The sessions of this daemon: opened within their quotas, shown to the samplers, watched, and taken away.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "daemon/hot_sets.h"
#include "shm/bell.h"
#include "shm/plane.h"
#include "shm/segment.h"

namespace croupier::daemon {

struct SessionRequest {
    std::string name;
    proto::Geometry geometry;
    std::vector<std::uint32_t> order;  // all blocks, hottest first; empty: identity
    bool takeover = false;
    bool resume = false;
};

struct OpenedSession {
    const shm::Segment* segment = nullptr;
    bool resumed = false;
};

class SessionRegistry {
  public:
    SessionRegistry(const config::Config& config, shm::Plane& plane, shm::Bell& bell);

    // Segments of a dead daemon of this instance: those with a live client go on, the others are removed.
    // Every sampler of the dead daemon must be gone.
    void adopt_survivors();

    shm::Result<OpenedSession> open(const SessionRequest& request);
    shm::Result<bool> close(std::uint64_t id);
    shm::Result<bool> set_zmq_stream(std::uint64_t id, bool on);
    const shm::Segment* find(std::uint64_t id) const;
    std::size_t count() const { return sessions_.size(); }
    const std::map<std::uint64_t, std::unique_ptr<shm::Segment>>& all() const { return sessions_; }

    // Regularly: notices dead clients and writers, and removes what nobody comes back for.
    void tend();
    // `at`: the column that the dead one prepared, if it died of that.
    void reopen_claims(std::uint32_t dead_incarnation, const proto::PreparedColumn& at);
    void configure(const config::Config& config);

    void drain();
    bool drained() const;
    void retire_all();

  private:
    using Clock = std::chrono::steady_clock;
    struct Watch {
        bool client_was_alive = false;
        Clock::time_point alone_since = Clock::now();
        // A client that was given the session has until then to attach for the first time.
        Clock::time_point attach_by{};
        std::uint32_t epoch_before_attach = 0;
        std::vector<std::uint32_t> writers_ended;  // by rank
    };

    shm::Result<bool> admit(const SessionRequest& request, std::uint64_t bytes) const;
    shm::Result<OpenedSession> create(const SessionRequest& request);
    shm::Result<OpenedSession> meet_namesake(shm::Segment& present, const SessionRequest& request);
    shm::Segment* find_by_name(const std::string& name) const;
    void adopt(const std::string& path);
    void take_in(std::unique_ptr<shm::Segment> segment);
    void retire(std::uint64_t id, proto::SessionState final_state, const std::string& why);
    void expect_client(const shm::Segment& segment);
    void show_to_samplers();
    void watch_client(std::uint64_t id, const shm::Segment& segment, std::vector<std::uint64_t>& abandoned);
    void watch_writers(std::uint64_t id, const shm::Segment& segment);
    void give_up_late_steps(std::uint64_t id, const shm::Segment& segment) const;

    config::Config config_;
    shm::Plane* plane_;
    shm::Bell* bell_;
    std::map<std::uint64_t, std::unique_ptr<shm::Segment>> sessions_;
    std::map<std::uint64_t, Watch> watches_;
    HotSets hot_sets_;
    bool draining_ = false;
};

}  // namespace croupier::daemon
