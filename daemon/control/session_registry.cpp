#include "daemon/control/session_registry.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/control/dead_claims.h"
#include "daemon/control/session_admission.h"
#include "event_log/event_log.h"
#include "shm/bell.h"
#include "shm/block_requests.h"
#include "shm/clock.h"
#include "shm/futex.h"
#include "shm/logits_publisher.h"
#include "shm/session_record.h"
#include "shm/step_claims.h"
#include "shm/step_window.h"

namespace croupier::daemon {

using event_log::Event;

using proto::SessionCounter;
using proto::SessionState;
using shm::Errc;
using shm::Role;

namespace {

// Between the answer to Open and the client's lock on the segment; sessions.reattach_grace_ms may be 0.
constexpr std::chrono::seconds kTimeToAttach{5};

// All of a rank's writers but a present one.
std::uint32_t ended_writers(const shm::Segment& segment, std::uint32_t rank) {
    const std::uint32_t begun = segment.header().writers[rank].attached.load(std::memory_order_acquire);
    return begun != 0 && segment.is_held(shm::writer_role(rank)) ? begun - 1 : begun;
}

// How many columns wait for more of a row than the rank sent of a lean step.
std::uint32_t unanswered_requests(const shm::Segment& segment, std::uint64_t step, std::uint32_t rank,
                                  std::uint32_t columns) {
    if (segment.geometry().lean_blocks == 0) return 0;
    const shm::BlockRequests requests(segment, step, shm::writer_epochs(segment));
    const shm::StepClaims claims(segment, step);
    std::uint32_t unanswered = 0;
    for (std::uint32_t column = 0; column < columns; ++column) {
        if (!claims.is_committed(column) && requests.unanswered(column, rank) != 0) ++unanswered;
    }
    return unanswered;
}

// Empty: none is.
std::string missing_ranks(const shm::Segment& segment, std::uint64_t step, std::uint32_t columns) {
    std::string ranks;
    for (std::uint32_t rank = 0; rank < segment.geometry().tp; ++rank) {
        if (shm::slice_ready(segment, step, rank)) {
            const std::uint32_t unanswered = unanswered_requests(segment, step, rank, columns);
            if (unanswered == 0) continue;
            ranks += (ranks.empty() ? "rank " : ", rank ") + std::to_string(rank) +
                     " has not answered what " + std::to_string(unanswered) + " columns asked for";
            continue;
        }
        ranks += (ranks.empty() ? "rank " : ", rank ") + std::to_string(rank) + " has published " +
                 std::to_string(shm::tiles_ready(segment, step, rank)) + " of " +
                 std::to_string(segment.geometry().tiles(rank)) + " tiles";
    }
    return ranks;
}

std::uint64_t steps_not_taken(const shm::Segment& segment) {
    const shm::StepWindow window = shm::steps_in_flight(segment);
    return window.sound ? window.end - window.first : 0;
}

}  // namespace

SessionRegistry::SessionRegistry(const config::Config& config, shm::Plane& plane, SegmentChannel& segments,
                                 int event_fd)
    : config_(config), plane_(&plane), segments_(&segments), hot_sets_(config.hot_set), maker_(event_fd) {}

void SessionRegistry::configure(const config::Config& config) {
    config_.sessions = config.sessions;
    hot_sets_.configure(config.hot_set);
}

shm::Result<bool> SessionRegistry::take_in(std::unique_ptr<shm::Segment>& segment, const std::string& owner) {
    CROUPIER_TRY(segments_->offer(*segment));
    auto& header = segment->header();
    // No sampler of this daemon sleeps on it yet, and those of an earlier one are gone.
    for (auto& sleepers : header.bell.sleepers) sleepers.store(0, std::memory_order_relaxed);
    const std::uint64_t id = segment->id();
    watches_[id].owner = owner;
    auto& ended = watches_[id].writers_ended;
    for (std::uint32_t rank = 0; rank < segment->geometry().tp; ++rank) {
        ended.push_back(ended_writers(*segment, rank));
    }
    sessions_[id] = std::move(segment);
    return true;
}

shm::Result<bool> SessionRegistry::close(std::uint64_t id, const Peer& peer) {
    CROUPIER_TRY(find_for(id, peer));
    retire(id, SessionState::closed, "closed by its client");
    return true;
}

shm::Result<bool> SessionRegistry::set_zmq_stream(std::uint64_t id, bool on, const Peer& peer) {
    CROUPIER_TRY_VALUE(own, find_for(id, peer));
    const auto fault = on ? proto::sending_fault(own->geometry()) : std::nullopt;
    if (fault) {
        return shm::fail(Errc::bad_argument,
                         "session " + own->name() + ": " + *fault + ", or take decisions from the ring");
    }
    own->header().zmq_stream.store(on ? 1 : 0, std::memory_order_release);
    return true;
}

shm::Result<const shm::Segment*> SessionRegistry::find_for(std::uint64_t id, const Peer& peer) const {
    const shm::Segment* segment = find(id);
    if (segment == nullptr) return shm::fail(Errc::not_found, "no session has the id " + std::to_string(id));
    if (!peer.may_act_for(watches_.at(id).owner)) return not_yours(segment->name());
    return segment;
}

const shm::Segment* SessionRegistry::find(std::uint64_t id) const {
    const auto found = sessions_.find(id);
    return found == sessions_.end() ? nullptr : found->second.get();
}

shm::Segment* SessionRegistry::find_by_name(const std::string& name) const {
    for (const auto& [id, segment] : sessions_) {
        if (name == segment->name()) return segment.get();
    }
    return nullptr;
}

void SessionRegistry::retire(std::uint64_t id, SessionState final_state, const std::string& why) {
    const auto found = sessions_.find(id);
    auto& header = found->second->header();
    event_log::write(Event::session_ended,
                     {{"session", found->second->name()}, {"session_id", id}, {"reason", why}},
                     "session {} ({}) ends: {}", found->second->name(), id, why);
    header.state.store(final_state, std::memory_order_release);
    header.decided_bell.fetch_add(1, std::memory_order_seq_cst);
    shm::futex_wake_all(header.decided_bell);
    shm::remove_session_files(found->second->path());
    SegmentMaker::let_go(std::move(found->second));
    sessions_.erase(found);
    watches_.erase(id);
    hot_sets_.forget(id);
    segments_->withdraw(id);
    show_to_samplers();
}

void SessionRegistry::expect_client(const shm::Segment& segment) {
    Watch& watch = watches_[segment.id()];
    watch.attach_by = Clock::now() + kTimeToAttach;
    watch.epoch_before_attach = segment.header().client_epoch.load(std::memory_order_acquire);
}

void SessionRegistry::show_to_samplers() {
    auto& header = plane_->header();
    for (auto& row : header.sessions) {
        const std::uint64_t id = row.session_id.load(std::memory_order_relaxed);
        if (id != 0 && !sessions_.contains(id)) row.session_id.store(0, std::memory_order_release);
    }
    for (const auto& [id, segment] : sessions_) {
        proto::SessionTableEntry* empty = nullptr;
        bool shown = false;
        for (auto& row : header.sessions) {
            const std::uint64_t present = row.session_id.load(std::memory_order_relaxed);
            shown = shown || present == id;
            if (present == 0 && empty == nullptr) empty = &row;
        }
        if (shown || empty == nullptr) continue;
        empty->lost.store(0, std::memory_order_relaxed);
        // SYNC: release; pairs with the samplers' acquire: who sees the id was sent the segment.
        empty->session_id.store(id, std::memory_order_release);
    }
    header.table_version.fetch_add(1, std::memory_order_release);
    shm::ring(header.bell);
}

void SessionRegistry::reopen_claims(std::uint32_t dead_incarnation, const proto::PreparedColumn& at) {
    std::vector<const shm::Segment*> sessions;
    for (const auto& [id, segment] : sessions_) sessions.push_back(segment.get());
    daemon::reopen_claims(sessions, dead_incarnation, at);
}

void SessionRegistry::watch_client(std::uint64_t id, const shm::Segment& segment,
                                   std::vector<std::uint64_t>& abandoned) {
    Watch& watch = watches_[id];
    const bool alive = segment.is_held(Role::client);
    if (watch.client_was_alive && !alive) {
        watch.alone_since = Clock::now();
        segment.header().counter(SessionCounter::clients_lost).fetch_add(1, std::memory_order_relaxed);
        event_log::write(
            Event::client_lost,
            {{"session", segment.name()},
             {"session_id", id},
             {"grace_ms", config_.sessions.reattach_grace_ms}},
            "session {} ({}): its client died; {}", segment.name(), id,
            draining_ ? std::string("it ends, because the daemon drains")
                      : "it may resume for " + std::to_string(config_.sessions.reattach_grace_ms) + " ms");
    }
    watch.client_was_alive = alive;
    const auto grace = std::chrono::milliseconds(config_.sessions.reattach_grace_ms);
    const bool expected =
        Clock::now() < watch.attach_by &&
        segment.header().client_epoch.load(std::memory_order_acquire) == watch.epoch_before_attach;
    if (!alive && !expected && Clock::now() - watch.alone_since > grace) abandoned.push_back(id);
}

void SessionRegistry::watch_writers(std::uint64_t id, const shm::Segment& segment) {
    Watch& watch = watches_[id];
    for (std::uint32_t rank = 0; rank < segment.geometry().tp; ++rank) {
        const std::uint32_t ended = ended_writers(segment, rank);
        if (ended <= watch.writers_ended[rank]) continue;
        segment.header()
            .counter(SessionCounter::writers_lost)
            .fetch_add(ended - watch.writers_ended[rank], std::memory_order_relaxed);
        watch.writers_ended[rank] = ended;
        event_log::write(Event::writer_lost,
                         {{"session", segment.name()}, {"session_id", id}, {"rank", rank}},
                         "session {} ({}): the writer of rank {} is gone", segment.name(), id, rank);
    }
}

// Of which a sampler said so.
std::vector<std::uint64_t> SessionRegistry::take_lost() {
    std::vector<std::uint64_t> ids;
    for (auto& row : plane_->header().sessions) {
        const std::uint64_t lost = row.lost.load(std::memory_order_acquire);
        if (lost != 0 && lost == row.session_id.load(std::memory_order_relaxed)) ids.push_back(lost);
    }
    return ids;
}

void SessionRegistry::give_up_late_steps(std::uint64_t id, const shm::Segment& segment) const {
    const std::uint64_t deadline = std::uint64_t{config_.sessions.step_deadline_ms} * 1'000'000;
    if (deadline == 0) return;
    const std::uint64_t now = shm::monotonic_ns();
    // A step's logits come after those of the steps before it: its time begins when those are decided.
    std::uint64_t begins = 0;
    shm::for_each_step(segment, [&](std::uint64_t step, std::uint32_t columns) {
        const std::uint32_t slot = segment.slot_of(step);
        if (shm::step_complete(segment, slot, columns)) {
            begins = segment.decision_head(slot).last_commit_ns.load(std::memory_order_relaxed);
            return;
        }
        const std::uint64_t since = std::max(std::exchange(begins, now), segment.schedule(slot).published_ns);
        if (now < since || now - since <= deadline) return;
        const std::string missing = missing_ranks(segment, step, columns);
        if (missing.empty()) return;
        if (shm::StepClaims(segment, step).give_up(columns, shm::StepClaims::kCleaner) == 0) return;
        event_log::write(
            Event::step_given_up,
            {{"session", segment.name()}, {"session_id", id}, {"step", step}, {"missing", missing}},
            "session {} ({}): step {} is given up after sessions.step_deadline_ms: {}", segment.name(), id,
            step, missing);
    });
}

void SessionRegistry::tell_removed(const shm::Segment& segment) {
    Watch& watch = watches_[segment.id()];
    if (watch.removal_told || !segment.removed()) return;
    watch.removal_told = true;
    event_log::write(
        Event::files_removed,
        {{"session", segment.name()}, {"session_id", segment.id()}, {"shm_dir", config_.shm.dir}},
        "session {} ({}): its file was removed from {}. It is decided for as long as this daemon "
        "lives, or a stand-in; no later daemon finds it. At a user's logout systemd-logind "
        "removes what is his there: RemoveIPC=no in logind.conf, `loginctl enable-linger`, or "
        "shm.dir elsewhere",
        segment.name(), segment.id(), config_.shm.dir);
}

void SessionRegistry::housekeep() {
    remove_forsaken();
    if (segments_->catch_up()) show_to_samplers();
    adopt_given_back();
    std::vector<std::uint64_t> abandoned;
    std::vector<std::uint64_t> unsound;
    std::vector<std::uint64_t> lost = take_lost();
    for (const auto& [id, segment] : sessions_) {
        if (!segment->intact()) lost.push_back(id);
        tell_removed(*segment);
        watch_client(id, *segment, abandoned);
        watch_writers(id, *segment);
        give_up_late_steps(id, *segment);
        hot_sets_.housekeep(*segment);
        if (!shm::steps_in_flight(*segment).sound) unsound.push_back(id);
    }
    for (const auto id : lost) {
        if (find(id) != nullptr) {
            retire(id, SessionState::closed, "its segment was cut off by a process that may write to it");
        }
    }
    for (const auto id : abandoned) {
        if (find(id) == nullptr) continue;
        retire(id, SessionState::closed, "its client is gone and did not come back");
    }
    for (const auto id : unsound) {
        if (find(id) != nullptr) retire(id, SessionState::closed, "its step counters contradict each other");
    }
}

void SessionRegistry::drain() {
    draining_ = true;
    forget_asked_back();
    for (const auto& [id, segment] : sessions_) {
        segment->header().state.store(SessionState::draining, std::memory_order_release);
    }
}

bool SessionRegistry::drained() const {
    // Nobody can come back for the steps of a dead client: a daemon that drains lets none in.
    return pending_.empty() && std::all_of(sessions_.begin(), sessions_.end(), [](const auto& entry) {
               return !entry.second->is_held(Role::client) || steps_not_taken(*entry.second) == 0;
           });
}

void SessionRegistry::name_undrained() const {
    for (const auto& [id, segment] : sessions_) {
        const std::uint64_t left = steps_not_taken(*segment);
        if (left == 0) continue;
        std::uint64_t decided = 0;
        shm::for_each_step(*segment, [&, &where = *segment](std::uint64_t step, std::uint32_t columns) {
            if (shm::step_complete(where, where.slot_of(step), columns)) ++decided;
        });
        event_log::write(
            Event::steps_left,
            {{"session", segment->name()}, {"session_id", id}, {"steps", left}, {"decided", decided}},
            "session {} ({}): {} steps are still in flight, {} of them decided and not taken after "
            "sessions.drain_timeout_ms: stopping all the same",
            segment->name(), id, left, decided);
    }
}

void SessionRegistry::end_openings() {
    draining_ = true;
    forget_asked_back();
    maker_.end();
    for (auto& [id, pending] : std::exchange(pending_, {})) {
        for (Asker& asker : pending.askers) {
            unmade_.push_back({std::move(asker), shm::fail(Errc::draining,
                                                           "the daemon ends and opens no new sessions; "
                                                           "ask again when the next one is there")});
        }
    }
}

void SessionRegistry::retire_all() {
    while (!sessions_.empty()) retire(sessions_.begin()->first, SessionState::closed, "the daemon stops");
}

}  // namespace croupier::daemon
