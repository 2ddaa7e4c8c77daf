// The sessions of this daemon: opened within their quotas, shown to the samplers, watched, and taken away.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "daemon/control/hot_sets.h"
#include "daemon/control/peer.h"
#include "daemon/control/segment_maker.h"
#include "daemon/worker/segment_channel.h"
#include "shm/plane.h"
#include "shm/segment.h"

namespace croupier::daemon {

struct SessionRequest {
    std::string name;
    proto::Geometry geometry;
    std::vector<std::uint32_t> order;    // all blocks, hottest first; empty: identity
    std::vector<std::byte> token_table;  // text/token_table.h; empty: the session has no tokenizer
    bool takeover = false;
    bool resume = false;
    Peer peer;
};

struct OpenedSession {
    const shm::Segment* segment = nullptr;
    bool resumed = false;
};

// Who waits for an answer that comes later.
struct Asker {
    std::string frame;  // of the control socket
    std::uint64_t request = 0;
    Peer peer;
};

struct OpenAnswer {
    Asker asker;
    shm::Result<OpenedSession> opened;
};

class SessionRegistry {
  public:
    // `event_fd` is written to when take_made() has something to take.
    SessionRegistry(const config::Config& config, shm::Plane& plane, SegmentChannel& segments, int event_fd);

    // Segments of a dead daemon of this instance: sessions go on, and those without a client have their
    // grace. Every sampler of the dead daemon must be gone.
    void adopt_survivors();

    // Nothing: the segment is being made, and take_made() answers.
    shm::Result<std::optional<OpenedSession>> open(SessionRequest request, const Asker& asker);
    std::vector<OpenAnswer> take_made();
    shm::Result<bool> close(std::uint64_t id, const Peer& peer);
    shm::Result<bool> set_zmq_stream(std::uint64_t id, bool on, const Peer& peer);
    const shm::Segment* find(std::uint64_t id) const;
    // The session, if it is there and this peer's to act for.
    shm::Result<const shm::Segment*> find_for(std::uint64_t id, const Peer& peer) const;
    std::size_t count() const { return sessions_.size(); }
    const std::map<std::uint64_t, std::unique_ptr<shm::Segment>>& all() const { return sessions_; }

    // Regularly: notices dead clients and writers, and removes what nobody comes back for.
    void housekeep();
    // `at`: the column that the dead one prepared, if it died of that.
    void reopen_claims(std::uint32_t dead_incarnation, const proto::PreparedColumn& at);
    void configure(const config::Config& config);
    // Where the memory of new sessions should lie; -1: where the kernel likes.
    void place_on_node(std::int32_t node) { node_ = node; }

    void drain();
    // Whether every client that lives has taken every step that it published.
    bool drained() const;
    // Says in the log what a stop leaves behind that waits no longer.
    void name_undrained() const;
    // Segments that are being made go, and take_made() answers who asked for them.
    void end_openings();
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
        bool removal_told = false;
        std::string owner;
    };
    // A session whose segment is being made.
    struct Pending {
        std::shared_ptr<const SessionRequest> request;  // its maker's too
        std::uint64_t bytes = 0;
        std::vector<Asker> askers;
    };
    using Opened = shm::Result<std::optional<OpenedSession>>;

    // `gives_way`: ends when the new one can be made, so that its room counts; null: none does.
    shm::Result<bool> has_room(const SessionRequest& request, const shm::Segment* gives_way) const;
    // There is room.
    Opened create(SessionRequest&& request, const Asker& asker);
    Opened open_present(shm::Segment& present, SessionRequest&& request, const Asker& asker);
    Opened join(Pending& pending, const SessionRequest& request, const Asker& asker);
    bool never_attached(const shm::Segment& segment) const;
    shm::Result<OpenedSession> begin_session(std::unique_ptr<shm::Segment> segment,
                                             const SessionRequest& request);
    shm::Segment* find_by_name(const std::string& name) const;
    void adopt(const std::string& path);
    // Not this daemon's to serve; removed once nobody holds it.
    void leave_alone(const std::string& path, const std::string& why);
    void remove_forsaken();
    void ask_back(std::unique_ptr<shm::Segment> segment);
    void adopt_given_back();
    // This daemon ends, and leaves them to who has them.
    void forget_asked_back();
    bool is_asked_back(const std::string& name) const;
    // Fails, and leaves the segment, where samplers cannot have it.
    shm::Result<bool> take_in(std::unique_ptr<shm::Segment>& segment, const std::string& owner);
    void retire(std::uint64_t id, proto::SessionState final_state, const std::string& why);
    void expect_client(const shm::Segment& segment);
    void show_to_samplers();
    std::vector<std::uint64_t> take_lost();
    void tell_removed(const shm::Segment& segment);
    void watch_client(std::uint64_t id, const shm::Segment& segment, std::vector<std::uint64_t>& abandoned);
    void watch_writers(std::uint64_t id, const shm::Segment& segment);
    void give_up_late_steps(std::uint64_t id, const shm::Segment& segment) const;

    config::Config config_;
    shm::Plane* plane_;
    SegmentChannel* segments_;
    std::map<std::uint64_t, std::unique_ptr<shm::Segment>> sessions_;
    std::map<std::uint64_t, Watch> watches_;
    std::map<std::uint64_t, Pending> pending_;
    std::vector<OpenAnswer> unmade_;
    HotSets hot_sets_;
    std::vector<std::string> left_alone_;                    // paths of segments, until nobody holds them
    std::vector<std::unique_ptr<shm::Segment>> asked_back_;  // until who stands in lets go of them
    std::int32_t node_ = -1;
    SegmentMaker maker_;
    bool draining_ = false;
};

}  // namespace croupier::daemon
