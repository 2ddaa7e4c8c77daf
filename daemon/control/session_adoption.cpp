// The registry's other half: what an earlier daemon left.

#include <algorithm>
#include <utility>

#include "daemon/control/dead_claims.h"
#include "daemon/control/session_registry.h"
#include "event_log/event_log.h"
#include "shm/session_record.h"
#include "shm/snapshot.h"

namespace croupier::daemon {

using event_log::Event;

using shm::Errc;
using shm::Role;

void SessionRegistry::adopt_survivors() {
    for (const auto& path : shm::segment_files(config_.shm.dir, config_.instance)) adopt(path);
    show_to_samplers();
}

void SessionRegistry::adopt(const std::string& path) {
    auto attached = shm::Segment::attach(path, shm::Access::read_write);
    if (!attached) return leave_alone(path, attached.error().message);
    auto segment = std::make_unique<shm::Segment>(std::move(attached).value());
    // The file's name is the daemon's, the header is whoever's may write to it.
    if (shm::segment_path(config_.shm.dir, config_.instance, segment->id()) != path) {
        return leave_alone(path, "its header says that it is session " + std::to_string(segment->id()));
    }
    const auto record = shm::read_record(path);
    if (!record && record.error().code == Errc::not_found && !segment->is_held(Role::client)) {
        event_log::write(Event::segment_removed, {{"segment", path}},
                         "removing {}: the daemon died before a client opened it", path);
        shm::remove_session_files(path);
        return;
    }
    if (!record) return leave_alone(path, record.error().message);
    if (record.value().name != segment->name()) {
        return leave_alone(path, "its header names another session than the daemon opened");
    }
    const auto [outcome, freed] = succeed(*segment);
    if (outcome == Succession::held) return ask_back(std::move(segment));
    // The samplers of a stand-in that was killed end a moment after it.
    if (outcome == Succession::samplers_live) {
        segment->release(Role::daemon);
        return ask_back(std::move(segment));
    }
    segment->header().wanted.store(0, std::memory_order_relaxed);
    if (outcome == Succession::ended) {
        event_log::write(Event::segment_removed, {{"segment", path}}, "removing {}: its session has ended",
                         path);
        shm::remove_session_files(path);
        return;
    }
    // When its client died nobody knows: its grace begins anew.
    const std::string client = segment->is_held(Role::client)
                                   ? "its client lives"
                                   : "its client is gone, it may resume for " +
                                         std::to_string(config_.sessions.reattach_grace_ms) + " ms";
    event_log::write(Event::session_adopted,
                     {{"session", segment->name()}, {"session_id", segment->id()}, {"columns", freed}},
                     "session {} ({}) continues: {}; {} half-decided columns are decided again",
                     segment->name(), segment->id(), client, freed);
    if (auto taken = take_in(segment, record.value().owner); !taken) leave_alone(path, taken.error().message);
}

// Held by who stands in for a daemon, or by what is left of one.
void SessionRegistry::ask_back(std::unique_ptr<shm::Segment> segment) {
    event_log::write(Event::session_asked_back, {{"session", segment->name()}, {"session_id", segment->id()}},
                     "session {} ({}): another process decides for it; requested it back", segment->name(),
                     segment->id());
    segment->header().wanted.store(1, std::memory_order_release);
    asked_back_.push_back(std::move(segment));
}

void SessionRegistry::adopt_given_back() {
    std::vector<std::string> given;
    std::erase_if(asked_back_, [&given](const auto& segment) {
        // Again each time: who finds it forgotten clears it.
        segment->header().wanted.store(1, std::memory_order_release);
        if (segment->is_held(Role::daemon) || segment->is_held(Role::samplers)) return false;
        given.push_back(segment->path());
        return true;
    });
    for (const std::string& path : given) adopt(path);
    if (!given.empty()) show_to_samplers();
}

void SessionRegistry::forget_asked_back() {
    for (const auto& segment : asked_back_) segment->header().wanted.store(0, std::memory_order_release);
    asked_back_.clear();
}

bool SessionRegistry::is_asked_back(const std::string& name) const {
    return std::any_of(asked_back_.begin(), asked_back_.end(),
                       [&name](const auto& segment) { return segment->name() == name; });
}

void SessionRegistry::leave_alone(const std::string& path, const std::string& why) {
    event_log::write(Event::segment_left_alone, {{"segment", path}, {"reason", why}}, "leaving {} alone: {}",
                     path, why);
    left_alone_.push_back(path);
}

void SessionRegistry::remove_forsaken() {
    std::erase_if(left_alone_, [](const std::string& path) {
        const auto file = shm::open_file(path, shm::Access::read_only);
        if (!file && file.error().code == Errc::not_found) return true;
        // One that cannot be opened now may be held: it is looked at again.
        if (!file || shm::first_locked_byte(file.value())) return false;
        event_log::write(Event::segment_removed, {{"segment", path}},
                         "removing {}: this daemon cannot serve it, and no process holds it", path);
        shm::remove_session_files(path);
        return true;
    });
}

}  // namespace croupier::daemon
