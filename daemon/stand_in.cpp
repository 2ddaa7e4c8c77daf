#include "daemon/stand_in.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "daemon/dead_claims.h"
#include "daemon/signals.h"
#include "daemon/stand_in_samplers.h"
#include "event_log/event_log.h"
#include "host/placement.h"
#include "shm/segment.h"

namespace croupier::daemon {
namespace {

using event_log::Event;
using proto::SessionCounter;
using proto::SessionState;
using shm::Errc;
using shm::Role;

// A daemon asks again at each of its own looks, and takes the session as soon as it can. A wish that stands
// for so long while nobody answers for the session is that of a daemon that died.
constexpr std::uint32_t kLooksUntilForgotten = 50;

// Of an exit status: it cannot stand in for this session's daemon, now or later.
constexpr int kCannotStandIn = 2;

// Whose samplers lock the segment while they may decide, so that their end can be seen.
bool samplers_can_be_seen(const proto::SegmentHeader& header) {
    return header.daemon_generation.load(std::memory_order_acquire) ==
           header.locking_generation.load(std::memory_order_relaxed);
}

class StandIn {
  public:
    StandIn(const StandInOptions& options, shm::Segment segment, shm::FileDescriptor signals)
        : options_(options), segment_(std::move(segment)), signals_(std::move(signals)) {}

    // The program's exit status.
    int run() {
        int status = 0;
        while (status == 0 && !over()) {
            status = turn();
            rest();
        }
        samplers_.reset();
        if (answers_) segment_.release(Role::daemon);
        return status;
    }

  private:
    proto::SegmentHeader& header() const { return segment_.header(); }

    bool over() {
        const std::vector<int> seen = read_signals(signals_);
        if (std::any_of(seen.begin(), seen.end(), is_stop)) return true;
        const auto state = header().state.load(std::memory_order_acquire);
        if (state != SessionState::active && state != SessionState::draining) return true;
        return !segment_.is_held(Role::client) || segment_.mapping().lost() || !segment_.intact();
    }

    void rest() const {
        pollfd signal{signals_.get(), POLLIN, 0};
        ::poll(&signal, 1, static_cast<int>(kStandInLooks.count()));
    }

    int turn() {
        if (samplers_) samplers_->housekeep();
        if (header().wanted.load(std::memory_order_acquire) != 0) {
            give_way();
            return 0;
        }
        looks_given_way_ = 0;
        if (samplers_ || (!answers_ && !segment_.hold(Role::daemon))) return 0;
        answers_ = true;
        if (!samplers_can_be_seen(header())) {
            event_log::write(
                Event::stand_in_failed, {{"session", segment_.name()}, {"session_id", segment_.id()}},
                "cannot stand in: the daemon of session {} was of a build that does not show when its "
                "samplers have ended; one of segment {}.{} or later would be right",
                segment_.name(), proto::kSegmentVersion, proto::kSegmentMinor);
            return kCannotStandIn;
        }
        // What the dead one's samplers still store must not meet what others decide next.
        if (!segment_.is_held(Role::samplers)) begin();
        return 0;
    }

    void begin() {
        // One that ended it meanwhile has the last word; one that drained let in no new steps, and is gone.
        auto draining = SessionState::draining;
        header().state.compare_exchange_strong(draining, SessionState::active);
        if (header().state.load(std::memory_order_acquire) != SessionState::active) return;
        const std::uint32_t freed = reopen_all_claims(segment_);
        begin_generation(header());
        header().counter(SessionCounter::stand_ins).fetch_add(1, std::memory_order_relaxed);
        const std::uint32_t count =
            options_.samplers != 0 ? options_.samplers : (host::default_sampler_count(1) + 1) / 2;
        event_log::write(
            Event::stand_in_began,
            {{"session", segment_.name()},
             {"session_id", segment_.id()},
             {"samplers", count},
             {"columns", freed}},
            "session {} ({}): its daemon is gone; {} samplers decide in its stead, {} half-decided columns "
            "again",
            segment_.name(), segment_.id(), count, freed);
        samplers_.emplace(segment_, count, std::chrono::milliseconds(options_.heartbeat_timeout_ms));
    }

    // Whether it decides, only waits, or another stand-in decides: the daemon goes first.
    void give_way() {
        if (samplers_) {
            samplers_.reset();
            event_log::write(
                Event::stand_in_gave_back, {{"session", segment_.name()}, {"session_id", segment_.id()}},
                "session {} ({}): a daemon wants it, and gets it back", segment_.name(), segment_.id());
        }
        if (answers_) segment_.release(Role::daemon);
        answers_ = false;
        looks_given_way_ = segment_.is_held(Role::daemon) ? 0 : looks_given_way_ + 1;
        if (looks_given_way_ < kLooksUntilForgotten) return;
        header().wanted.store(0, std::memory_order_relaxed);
    }

    StandInOptions options_;
    shm::Segment segment_;
    shm::FileDescriptor signals_;
    std::optional<StandInSamplers> samplers_;
    bool answers_ = false;  // it holds the daemon's lock
    std::uint32_t looks_given_way_ = 0;
};

}  // namespace

int run_stand_in(const StandInOptions& options) {
    shm::survive_lost_pages();
    auto segment = shm::Segment::attach(options.segment, shm::Access::read_write);
    auto signals = open_signals();
    if (!segment || !signals) {
        event_log::write(Event::stand_in_failed, {{"segment", options.segment}}, "cannot stand in: {}",
                         !segment ? segment.error().message : signals.error().message);
        return !segment && segment.error().code == Errc::wrong_version ? kCannotStandIn : 1;
    }
    return StandIn(options, std::move(segment).value(), std::move(signals).value()).run();
}

}  // namespace croupier::daemon
