#include "daemon/supervisor/stand_in.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "daemon/control/dead_claims.h"
#include "daemon/supervisor/private_use.h"
#include "daemon/supervisor/signals.h"
#include "daemon/supervisor/stand_in_samplers.h"
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

// A daemon sets the header's `wanted` at each of its own looks, and takes the session as soon as it can. If
// it stays set for so many looks while no process holds the daemon's role, the daemon that set it has died.
constexpr std::uint32_t kLooksUntilForgotten = 50;

// The exit status for a segment of another version: a retry would not help.
constexpr int kCannotStandIn = 2;

class StandIn {
  public:
    StandIn(const StandInOptions& options, shm::Segment segment, shm::FileDescriptor signals,
            std::optional<PrivateUse> use)
        : options_(options),
          segment_(std::move(segment)),
          signals_(std::move(signals)),
          use_(std::move(use)) {}

    void run() {
        while (!over()) {
            turn();
            rest();
        }
        samplers_.reset();
        if (answers_) segment_.release(Role::daemon);
        clear_up();
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

    // After the last engine of a private daemon that died too: a daemon that lives does this itself.
    void clear_up() {
        if (!use_ || segment_.is_held(Role::client) || !use_->close() || use_->has_daemon()) return;
        // The kernel's name of the file: the header is the client's.
        const std::filesystem::path path = segment_.path();
        const std::string name = path.filename();
        constexpr std::string_view kPrefix = "croupier-";
        const auto id_at = name.rfind('-');
        if (!name.starts_with(kPrefix) || id_at == std::string::npos || id_at < kPrefix.size()) return;
        use_->remove_files(path.parent_path(), name.substr(kPrefix.size(), id_at - kPrefix.size()));
        event_log::write(Event::stopped, {}, "the last engine and its private daemon are gone: removed {}",
                         path.parent_path().string());
    }

    void rest() const {
        pollfd signal{signals_.get(), POLLIN, 0};
        ::poll(&signal, 1, static_cast<int>(kStandInLooks.count()));
    }

    void turn() {
        if (samplers_) samplers_->housekeep();
        if (header().wanted.load(std::memory_order_acquire) != 0) {
            give_way();
            return;
        }
        looks_given_way_ = 0;
        if (samplers_) return;
        const SucceededSession succeeded = succeed(segment_);
        answers_ = succeeded.outcome != Succession::held;
        if (succeeded.outcome == Succession::done) begin(succeeded.freed);
    }

    void begin(std::uint32_t freed) {
        header().counter(SessionCounter::stand_ins).fetch_add(1, std::memory_order_relaxed);
        const std::uint32_t count =
            options_.samplers != 0 ? options_.samplers : (host::default_sampler_count(1) + 1) / 2;
        event_log::write(Event::stand_in_began,
                         {{"session", segment_.name()},
                          {"session_id", segment_.id()},
                          {"samplers", count},
                          {"columns", freed}},
                         "session {} ({}): its daemon is gone; the stand-in decides with {} sampler{}, "
                         "{} half-decided columns again",
                         segment_.name(), segment_.id(), count, count == 1 ? "" : "s", freed);
        samplers_.emplace(segment_, options_.segment_fd, count,
                          std::chrono::milliseconds(options_.heartbeat_timeout_ms));
    }

    // Whether it decides, only waits, or another stand-in decides: the daemon goes first.
    void give_way() {
        if (samplers_) {
            samplers_.reset();
            event_log::write(
                Event::stand_in_gave_back, {{"session", segment_.name()}, {"session_id", segment_.id()}},
                "session {} ({}): a daemon is back and decides again", segment_.name(), segment_.id());
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
    std::optional<PrivateUse> use_;
    std::optional<StandInSamplers> samplers_;
    bool answers_ = false;  // it holds the daemon's lock
    std::uint32_t looks_given_way_ = 0;
};

}  // namespace

int run_stand_in(const StandInOptions& options) {
    shm::survive_lost_pages();
    const std::string number = std::to_string(options.segment_fd);
    // The stand-in's samplers, forked, attach by it too; nothing else that is started has it.
    if (::fcntl(options.segment_fd, F_SETFD, FD_CLOEXEC) != 0) {
        event_log::write(
            Event::stand_in_failed, {{"segment", "descriptor " + number}},
            "cannot stand in: no file is open as descriptor {} (--stand-in-fd); open the session's "
            "segment there, as the shell does with {}<>SEGMENT",
            number, number);
        return 1;
    }
    auto segment = shm::Segment::attach(options.segment_fd, shm::Access::read_write);
    auto signals = open_signals();
    std::optional<PrivateUse> use;
    shm::Result<bool> ready = true;
    if (!segment) ready = segment.error();
    if (ready && !signals) ready = signals.error();
    if (ready && options.used_by_fd >= 0) {
        auto inherited = PrivateUse::inherit(options.used_by_fd);
        if (inherited)
            use.emplace(std::move(inherited).value());
        else
            ready = inherited.error();
    }
    if (!ready) {
        event_log::write(Event::stand_in_failed, {{"segment", shm::path_of(options.segment_fd)}},
                         "cannot stand in: {}", ready.error().message);
        return ready.error().code == Errc::wrong_version ? kCannotStandIn : 1;
    }
    StandIn(options, std::move(segment).value(), std::move(signals).value(), std::move(use)).run();
    return 0;
}

}  // namespace croupier::daemon
