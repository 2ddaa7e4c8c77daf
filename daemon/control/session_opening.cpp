// How a session begins: found again, or made beside the loop and then taken in.

#include <algorithm>
#include <utility>

#include "daemon/control/dead_claims.h"
#include "daemon/control/session_admission.h"
#include "daemon/control/session_registry.h"
#include "event_log/event_log.h"
#include "shm/random_number.h"
#include "shm/session_record.h"

namespace croupier::daemon {

using event_log::Event;

using proto::SessionState;
using shm::Errc;
using shm::Role;

namespace {

// Clients that wait for one segment: the one that asked first, and its retries.
constexpr std::size_t kMostAskers = 64;

// Unguessable and never met again, so that a message for a session that is gone finds no other.
std::uint64_t fresh_session_id() {
    std::uint64_t id = 0;
    while (id == 0) id = shm::random_number().value_or(0) >> 16U;
    return id;
}

shm::Hugepages huge_pages(config::HugePages wanted) {
    switch (wanted) {
        case config::HugePages::off:
            return shm::Hugepages::off;
        case config::HugePages::attempt:
            return shm::Hugepages::try_to;
        case config::HugePages::require:
            return shm::Hugepages::require;
    }
    return shm::Hugepages::off;
}

bool ask_for_same(const SessionRequest& one, const SessionRequest& other) {
    return one.geometry == other.geometry && one.order == other.order && one.token_table == other.token_table;
}

}  // namespace

SessionRegistry::Opened SessionRegistry::open(SessionRequest request, const Asker& asker) {
    if (draining_) return shm::fail(Errc::draining, "the daemon drains and opens no new sessions");
    CROUPIER_TRY(check_request(request, config_.sessions));
    for (auto& [id, pending] : pending_) {
        if (pending.request->name == request.name) return join(pending, request, asker);
    }
    if (is_asked_back(request.name)) {
        return shm::fail(Errc::already_held, "session " + request.name +
                                                 " is just being taken back from a stand-in; open it again "
                                                 "in a moment, or choose another name");
    }
    if (shm::Segment* present = find_by_name(request.name))
        return open_present(*present, std::move(request), asker);
    CROUPIER_TRY(has_room(request, nullptr));
    return create(std::move(request), asker);
}

// A client that gave up waiting for a large segment and asks again is given that one, not another.
SessionRegistry::Opened SessionRegistry::join(Pending& pending, const SessionRequest& request,
                                              const Asker& asker) {
    if (!request.peer.may_act_for(pending.request->peer.identity)) return not_yours(request.name);
    if (!ask_for_same(*pending.request, request) || pending.askers.size() >= kMostAskers) {
        return shm::fail(Errc::already_held,
                         "session " + request.name +
                             " is just being opened; open it again in a moment, or choose "
                             "another name");
    }
    pending.askers.push_back(asker);
    return std::optional<OpenedSession>();
}

bool SessionRegistry::never_attached(const shm::Segment& segment) const {
    return segment.header().client_epoch.load(std::memory_order_acquire) == 0 &&
           segment.header().state.load(std::memory_order_acquire) == SessionState::active;
}

SessionRegistry::Opened SessionRegistry::open_present(shm::Segment& present, SessionRequest&& request,
                                                      const Asker& asker) {
    const std::uint64_t id = present.id();
    if (!request.peer.may_act_for(watches_.at(id).owner)) return not_yours(request.name);
    if (present.is_held(Role::client)) {
        if (!request.takeover) {
            return shm::fail(Errc::already_held,
                             "session " + request.name + " is held by the live client with pid " +
                                 std::to_string(present.header().client_pid.load()) +
                                 "; choose another name, or open with takeover to fence that client");
        }
        CROUPIER_TRY(has_room(request, &present));
        // A new segment, not a new epoch in the old one: what a fenced process may still write when it
        // wakes in the middle of a store goes to memory that nobody reads any more.
        retire(id, SessionState::fenced, "taken over by a new client");
        return create(std::move(request), asker);
    }
    if (request.resume) {
        CROUPIER_TRY(check_same_session(present, request));
        expect_client(present);
        return std::optional(OpenedSession{&present, true});
    }
    // Its client gave up before the answer came: what was made for it is as good as what would be made now.
    if (never_attached(present) && check_same_session(present, request)) {
        expect_client(present);
        return std::optional(OpenedSession{&present, false});
    }
    CROUPIER_TRY(has_room(request, &present));
    retire(id, SessionState::closed, "its client is gone and its name is opened anew");
    return create(std::move(request), asker);
}

shm::Result<bool> SessionRegistry::has_room(const SessionRequest& request,
                                            const shm::Segment* gives_way) const {
    std::size_t count = pending_.size();
    std::uint64_t in_use = 0;
    for (const auto& [id, pending] : pending_) in_use += pending.bytes;
    for (const auto& [id, segment] : sessions_) {
        if (segment.get() == gives_way) continue;
        ++count;
        in_use += segment->layout().total_bytes;
    }
    count += asked_back_.size();
    for (const auto& segment : asked_back_) in_use += segment->layout().total_bytes;
    return check_room(request, config_.sessions, count, in_use);
}

SessionRegistry::Opened SessionRegistry::create(SessionRequest&& request, const Asker& asker) {
    // With the plane the folder went, as at a user's logout.
    if (plane_->removed()) {
        if (auto made = shm::prepare_directory(config_.shm.dir); !made) return made.error();
    }
    shm::SegmentSpec spec;
    spec.directory = config_.shm.dir;
    spec.instance = config_.instance;
    spec.session_id = fresh_session_id();
    spec.name = request.name;
    spec.geometry = geometry_of(request);
    spec.ownership = {static_cast<mode_t>(config_.shm.mode), config_.shm.group};
    spec.node = node_;
    spec.hugepages = huge_pages(config_.shm.hugepages);
    // Its table of tokens may have megabytes, and samplers wait for this thread.
    const auto shared = std::make_shared<const SessionRequest>(std::move(request));
    pending_[spec.session_id] = {shared, proto::layout_of(spec.geometry).total_bytes, {asker}};
    maker_.begin(spec, shared);
    return std::optional<OpenedSession>();
}

std::vector<OpenAnswer> SessionRegistry::take_made() {
    std::vector<OpenAnswer> answers = std::exchange(unmade_, {});
    for (SegmentMaker::Made& made : maker_.take()) {
        auto pending = pending_.extract(made.id);
        const auto opened = made.segment
                                ? begin_session(std::move(made.segment).value(), *pending.mapped().request)
                                : shm::Result<OpenedSession>(made.segment.error());
        for (Asker& asker : pending.mapped().askers) answers.push_back({std::move(asker), opened});
    }
    return answers;
}

shm::Result<OpenedSession> SessionRegistry::begin_session(std::unique_ptr<shm::Segment> segment,
                                                          const SessionRequest& request) {
    const auto refused = [&segment](shm::Error error) -> shm::Result<OpenedSession> {
        shm::remove_session_files(segment->path());
        SegmentMaker::let_go(std::move(segment));
        return error;
    };
    if (draining_) return refused({Errc::draining, "the daemon drains and opens no new sessions"});
    if (auto kept = shm::write_record(segment->path(), {request.name, request.peer.identity}); !kept)
        return refused(kept.error());
    const shm::Segment* opened = segment.get();
    begin_generation(segment->header());
    if (auto taken = take_in(segment, request.peer.identity); !taken) return refused(taken.error());
    hot_sets_.begin(*opened);
    const proto::Geometry& geometry = opened->geometry();
    event_log::write(
        Event::session_opened,
        {{"session", opened->name()},
         {"session_id", opened->id()},
         {"peer", request.peer.identity},
         {"vocab", geometry.vocab},
         {"tp", geometry.tp},
         {"batch", geometry.max_batch},
         {"slots", geometry.slots},
         {"transport", geometry.transport()},
         {"dtype", proto::name_of(geometry.dtype)},
         {"bytes", opened->layout().total_bytes}},
        "session {} ({}) opened by {}: vocab {}, tp {}, batch {}, {} slots, transport {}, {}, tile {}, {} "
        "MiB{}{}",
        opened->name(), opened->id(), request.peer.identity, geometry.vocab, geometry.tp, geometry.max_batch,
        geometry.slots, geometry.transport(), proto::name_of(geometry.dtype), geometry.tile,
        opened->layout().total_bytes >> 20U, opened->hugepage_note().empty() ? "" : ", ",
        opened->hugepage_note());
    expect_client(*opened);
    show_to_samplers();
    return OpenedSession{opened, false};
}

}  // namespace croupier::daemon
