#include "daemon/stand_in.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "daemon/dead_claims.h"
#include "daemon/placement.h"
#include "daemon/signals.h"
#include "daemon/stand_in_samplers.h"
#include "shm/segment.h"

namespace croupier::daemon {
namespace {

using proto::SessionCounter;
using proto::SessionState;
using shm::Errc;
using shm::Role;

// A daemon that wants the session takes it within its own housekeeping; one that died instead has not.
constexpr std::uint32_t kLooksUntilTakenBack = 50;

class StandIn {
  public:
    StandIn(const StandInOptions& options, shm::Segment segment, shm::FileDescriptor signals)
        : options_(options), segment_(std::move(segment)), signals_(std::move(signals)) {}

    void run() {
        while (!over()) {
            if (samplers_) {
                samplers_->housekeep();
                if (header().wanted.load(std::memory_order_acquire) != 0) give_back();
            } else if (gives_way_ > 0) {
                gives_way_ = segment_.is_held(Role::daemon) ? 0 : gives_way_ - 1;
            } else if (answers_ || segment_.hold(Role::daemon)) {
                answers_ = true;
                // What the dead daemon's samplers still store must not meet what others decide next.
                if (!segment_.is_held(Role::samplers)) begin();
            }
            rest();
        }
        samplers_.reset();
        if (answers_) segment_.release(Role::daemon);
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

    void begin() {
        header().wanted.store(0, std::memory_order_relaxed);
        const std::uint32_t freed = reopen_all_claims(segment_);
        header().daemon_pid.store(::getpid(), std::memory_order_relaxed);
        header().daemon_generation.fetch_add(1, std::memory_order_release);
        // A daemon that drained let in no new steps; this one does not end.
        header().state.store(SessionState::active, std::memory_order_release);
        header().counter(SessionCounter::stand_ins).fetch_add(1, std::memory_order_relaxed);
        const std::uint32_t count =
            options_.samplers != 0 ? options_.samplers : (default_sampler_count(1) + 1) / 2;
        spdlog::warn(
            "session {} ({}): its daemon is gone; {} samplers decide in its stead, {} half-decided columns "
            "again",
            segment_.name(), segment_.id(), count, freed);
        samplers_.emplace(segment_, count, std::chrono::milliseconds(options_.heartbeat_timeout_ms));
    }

    void give_back() {
        samplers_.reset();
        answers_ = false;
        gives_way_ = kLooksUntilTakenBack;
        segment_.release(Role::daemon);
        spdlog::warn("session {} ({}): a daemon is back and has it again", segment_.name(), segment_.id());
    }

    StandInOptions options_;
    shm::Segment segment_;
    shm::FileDescriptor signals_;
    std::optional<StandInSamplers> samplers_;
    bool answers_ = false;         // it holds the daemon's lock
    std::uint32_t gives_way_ = 0;  // for so many looks it does not take the lock
};

shm::Result<shm::Segment> attach(const std::string& path) {
    CROUPIER_TRY_VALUE(segment, shm::Segment::attach(path, shm::Access::read_write));
    if (segment.header().minor >= proto::kMinorWithSamplersLock) return std::move(segment);
    return shm::fail(Errc::wrong_version,
                     path + " is of layout " + std::to_string(segment.header().version) + "." +
                         std::to_string(segment.header().minor) +
                         ", whose daemon does not show when its samplers have ended; a daemon of " +
                         std::to_string(proto::kSegmentVersion) + "." +
                         std::to_string(proto::kMinorWithSamplersLock) + " or later would be right");
}

}  // namespace

int run_stand_in(const StandInOptions& options) {
    shm::survive_lost_pages();
    auto segment = attach(options.segment);
    auto signals = open_signals();
    if (!segment || !signals) {
        spdlog::critical("cannot stand in: {}", !segment ? segment.error().message : signals.error().message);
        return 1;
    }
    StandIn(options, std::move(segment).value(), std::move(signals).value()).run();
    return 0;
}

}  // namespace croupier::daemon
