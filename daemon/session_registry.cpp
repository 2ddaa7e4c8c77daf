#include "daemon/session_registry.h"

#include <spdlog/spdlog.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "daemon/session_admission.h"
#include "shm/clock.h"
#include "shm/futex.h"
#include "shm/logits_publisher.h"
#include "shm/snapshot.h"
#include "shm/step_claims.h"
#include "shm/step_window.h"

namespace croupier::daemon {

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

// Empty: none is.
std::string missing_ranks(const shm::Segment& segment, std::uint64_t step) {
    std::string ranks;
    for (std::uint32_t rank = 0; rank < segment.geometry().tp; ++rank) {
        if (shm::slice_ready(segment, step, rank)) continue;
        ranks += (ranks.empty() ? "rank " : ", rank ") + std::to_string(rank) + " has published " +
                 std::to_string(shm::tiles_ready(segment, step, rank)) + " of " +
                 std::to_string(segment.geometry().tiles(rank)) + " tiles";
    }
    return ranks;
}

// Unguessable and never met again, so that a message for a session that is gone finds no other.
std::uint64_t fresh_session_id() {
    std::uint64_t id = 0;
    while (id == 0) {
        if (::getrandom(&id, sizeof(id), 0) != sizeof(id)) id = 0;
        id >>= 16U;
    }
    return id;
}

template <typename Visit>
void for_each_step(const shm::Segment& segment, Visit&& visit) {
    const shm::StepWindow window = shm::steps_in_flight(segment);
    if (!window.sound) return;
    for (std::uint64_t step = window.first; step < window.end; ++step) {
        const auto& record = segment.schedule(segment.slot_of(step));
        visit(step, std::min(record.columns, segment.geometry().max_batch));
    }
}

}  // namespace

SessionRegistry::SessionRegistry(const config::Config& config, shm::Plane& plane, shm::Bell& bell)
    : config_(config), plane_(&plane), bell_(&bell), hot_sets_(config.hot_set) {}

void SessionRegistry::configure(const config::Config& config) {
    config_.sessions = config.sessions;
    hot_sets_.configure(config.hot_set);
}

void SessionRegistry::adopt_survivors() {
    for (const auto& path : shm::segment_files(config_.shm.dir, config_.instance)) adopt(path);
    show_to_samplers();
}

void SessionRegistry::adopt(const std::string& path) {
    auto attached = shm::Segment::attach(path, shm::Access::read_write);
    if (!attached) {
        spdlog::error("leaving {} alone: {}", path, attached.error().message);
        return;
    }
    auto segment = std::make_unique<shm::Segment>(std::move(attached).value());
    auto& header = segment->header();
    const auto state = header.state.load(std::memory_order_acquire);
    const bool open = state == SessionState::active || state == SessionState::draining;
    if (!open || !segment->is_held(Role::client)) {
        spdlog::info("removing {}: its client is gone", path);
        header.state.store(SessionState::closed, std::memory_order_release);
        ::unlink(path.c_str());
        return;
    }
    if (!segment->hold(Role::daemon)) {
        spdlog::error("leaving {} alone: another daemon holds it", path);
        return;
    }
    std::uint32_t freed = 0;
    for_each_step(*segment, [&](std::uint64_t step, std::uint32_t columns) {
        freed += shm::StepClaims(*segment, step).reopen_all(columns);
    });
    spdlog::info("session {} ({}) goes on: its client lives, {} half-decided columns are decided again",
                 header.name, header.session_id, freed);
    header.state.store(SessionState::active, std::memory_order_release);
    take_in(std::move(segment));
}

void SessionRegistry::take_in(std::unique_ptr<shm::Segment> segment) {
    auto& header = segment->header();
    header.daemon_pid.store(::getpid(), std::memory_order_relaxed);
    header.daemon_generation.fetch_add(1, std::memory_order_release);
    const std::uint64_t id = header.session_id;
    auto& ended = watches_[id].writers_ended;
    for (std::uint32_t rank = 0; rank < segment->geometry().tp; ++rank) {
        ended.push_back(ended_writers(*segment, rank));
    }
    sessions_[id] = std::move(segment);
}

shm::Result<OpenedSession> SessionRegistry::open(const SessionRequest& request) {
    if (draining_) return shm::fail(Errc::draining, "the daemon drains and opens no new sessions");
    if (auto sound = check_request(request, config_.sessions); !sound) return sound.error();
    if (shm::Segment* present = find_by_name(request.name)) return meet_namesake(*present, request);
    return create(request);
}

shm::Result<OpenedSession> SessionRegistry::meet_namesake(shm::Segment& present,
                                                          const SessionRequest& request) {
    const std::uint64_t id = present.header().session_id;
    if (present.is_held(Role::client)) {
        if (!request.takeover) {
            return shm::fail(Errc::already_held,
                             "session " + request.name + " is held by the live client with pid " +
                                 std::to_string(present.header().client_pid.load()) +
                                 "; choose another name, or open with takeover to fence that client");
        }
        // A new segment, not a new epoch in the old one: what a fenced process may still write when it
        // wakes in the middle of a store goes to memory that nobody reads any more.
        retire(id, SessionState::fenced, "taken over by a new client");
        return create(request);
    }
    if (request.resume) {
        if (auto same = check_same_session(present, request); !same) return same.error();
        expect_client(present);
        return OpenedSession{&present, true};
    }
    retire(id, SessionState::closed, "its client is gone and its name is opened anew");
    return create(request);
}

shm::Result<OpenedSession> SessionRegistry::create(const SessionRequest& request) {
    std::uint64_t in_use = 0;
    for (const auto& [id, segment] : sessions_) in_use += segment->layout().total_bytes;
    if (auto room = check_room(request, config_.sessions, sessions_.size(), in_use); !room)
        return room.error();
    shm::SegmentSpec spec;
    spec.directory = config_.shm.dir;
    spec.instance = config_.instance;
    spec.session_id = fresh_session_id();
    spec.name = request.name;
    spec.geometry = request.geometry;
    spec.geometry.has_order = request.order.empty() ? 0 : 1;
    spec.ownership = {static_cast<mode_t>(config_.shm.mode), config_.shm.group};
    spec.hugepages = static_cast<shm::Hugepages>(config_.shm.hugepages);
    auto created = shm::Segment::create(spec);
    if (!created) return created.error();
    auto segment = std::make_unique<shm::Segment>(std::move(created).value());
    if (!request.order.empty()) write_order(*segment, request.order);
    hot_sets_.begin(*segment);
    spdlog::info("session {} ({}) opened: vocab {}, tp {}, batch {}, {} slots, tile {}, {} MiB{}{}",
                 request.name, spec.session_id, spec.geometry.vocab, spec.geometry.tp,
                 spec.geometry.max_batch, spec.geometry.slots, spec.geometry.tile,
                 segment->layout().total_bytes >> 20U, segment->hugepage_note().empty() ? "" : ", ",
                 segment->hugepage_note());
    const shm::Segment* opened = segment.get();
    take_in(std::move(segment));
    expect_client(*opened);
    show_to_samplers();
    return OpenedSession{opened, false};
}

shm::Result<bool> SessionRegistry::close(std::uint64_t id) {
    if (find(id) == nullptr) return shm::fail(Errc::not_found, "no session has the id " + std::to_string(id));
    retire(id, SessionState::closed, "closed by its client");
    return true;
}

shm::Result<bool> SessionRegistry::set_zmq_stream(std::uint64_t id, bool on) {
    const shm::Segment* segment = find(id);
    if (segment == nullptr) return shm::fail(Errc::not_found, "no session has the id " + std::to_string(id));
    segment->header().zmq_stream.store(on ? 1 : 0, std::memory_order_release);
    return true;
}

const shm::Segment* SessionRegistry::find(std::uint64_t id) const {
    const auto found = sessions_.find(id);
    return found == sessions_.end() ? nullptr : found->second.get();
}

shm::Segment* SessionRegistry::find_by_name(const std::string& name) const {
    for (const auto& [id, segment] : sessions_) {
        if (name == segment->header().name) return segment.get();
    }
    return nullptr;
}

void SessionRegistry::retire(std::uint64_t id, SessionState final_state, const std::string& why) {
    const auto found = sessions_.find(id);
    auto& header = found->second->header();
    spdlog::info("session {} ({}) ends: {}", header.name, id, why);
    header.state.store(final_state, std::memory_order_release);
    header.decided_bell.fetch_add(1, std::memory_order_seq_cst);
    shm::futex_wake_all(header.decided_bell);
    ::unlink(found->second->path().c_str());
    sessions_.erase(found);
    watches_.erase(id);
    hot_sets_.forget(id);
    show_to_samplers();
}

void SessionRegistry::expect_client(const shm::Segment& segment) {
    Watch& watch = watches_[segment.header().session_id];
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
        std::strncpy(empty->path, segment->path().c_str(), sizeof(empty->path) - 1);
        // SYNC: release; pairs with the samplers' acquire: who sees the id sees the path.
        empty->session_id.store(id, std::memory_order_release);
    }
    header.table_version.fetch_add(1, std::memory_order_release);
    bell_->ring();
}

void SessionRegistry::reopen_claims(std::uint32_t dead_incarnation, const proto::PreparedColumn& at) {
    std::uint32_t claimed = 0;
    for (const auto& [id, segment] : sessions_) {
        for_each_step(*segment, [&, &where = *segment](std::uint64_t step, std::uint32_t columns) {
            claimed += shm::StepClaims(where, step).claimed_by(dead_incarnation, columns);
        });
    }
    const std::uint64_t prepared = at.session_id.load(std::memory_order_relaxed);
    for (const auto& [id, segment] : sessions_) {
        for_each_step(*segment, [&, id = id, &where = *segment](std::uint64_t step, std::uint32_t columns) {
            const shm::StepClaims claims(where, step);
            claims.reopen(dead_incarnation, columns, claimed == 1);
            const std::uint32_t column = at.column.load(std::memory_order_relaxed);
            const bool was_at = prepared == id && at.step.load(std::memory_order_relaxed) == step;
            if (was_at && column < columns) claims.suspect(column, columns);
        });
    }
}

void SessionRegistry::watch_client(std::uint64_t id, const shm::Segment& segment,
                                   std::vector<std::uint64_t>& abandoned) {
    Watch& watch = watches_[id];
    const bool alive = segment.is_held(Role::client);
    if (watch.client_was_alive && !alive) {
        watch.alone_since = Clock::now();
        segment.header().counter(SessionCounter::clients_lost).fetch_add(1, std::memory_order_relaxed);
        spdlog::warn("session {} ({}): its client died; it may resume for {} ms", segment.header().name, id,
                     config_.sessions.reattach_grace_ms);
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
        spdlog::warn("session {} ({}): the writer of rank {} is gone", segment.header().name, id, rank);
    }
}

void SessionRegistry::give_up_late_steps(std::uint64_t id, const shm::Segment& segment) const {
    const std::uint64_t deadline = std::uint64_t{config_.sessions.step_deadline_ms} * 1'000'000;
    if (deadline == 0) return;
    const std::uint64_t now = shm::monotonic_ns();
    for_each_step(segment, [&](std::uint64_t step, std::uint32_t columns) {
        const std::uint64_t published = segment.schedule(segment.slot_of(step)).published_ns;
        if (now < published || now - published <= deadline) return;
        const std::string missing = missing_ranks(segment, step);
        if (missing.empty()) return;
        if (shm::StepClaims(segment, step).give_up(columns, shm::StepClaims::kCleaner) == 0) return;
        spdlog::warn("session {} ({}): step {} is given up after sessions.step_deadline_ms: {}",
                     segment.header().name, id, step, missing);
    });
}

void SessionRegistry::tend() {
    std::vector<std::uint64_t> abandoned;
    std::vector<std::uint64_t> unsound;
    for (const auto& [id, segment] : sessions_) {
        watch_client(id, *segment, abandoned);
        watch_writers(id, *segment);
        give_up_late_steps(id, *segment);
        hot_sets_.tend(*segment);
        if (!shm::steps_in_flight(*segment).sound) unsound.push_back(id);
    }
    for (const auto id : abandoned)
        retire(id, SessionState::closed, "its client is gone and did not come back");
    for (const auto id : unsound) {
        if (find(id) != nullptr) retire(id, SessionState::closed, "its step counters contradict each other");
    }
}

void SessionRegistry::drain() {
    draining_ = true;
    for (const auto& [id, segment] : sessions_) {
        segment->header().state.store(SessionState::draining, std::memory_order_release);
    }
}

bool SessionRegistry::drained() const {
    bool all = true;
    for (const auto& [id, segment] : sessions_) {
        for_each_step(*segment, [&, &where = *segment](std::uint64_t step, std::uint32_t columns) {
            all = all && shm::step_complete(where, where.slot_of(step), columns);
        });
    }
    return all;
}

void SessionRegistry::retire_all() {
    while (!sessions_.empty()) retire(sessions_.begin()->first, SessionState::closed, "the daemon stops");
}

}  // namespace croupier::daemon
