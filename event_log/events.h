// Every event that a program may log, under the name by which a collector knows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace croupier::event_log {

enum class Level : std::uint8_t { trace, debug, info, warn, error, critical };
std::string_view name_of(Level level);

enum class Event : std::uint8_t {
    // croupierd
    starting,
    setting,
    ready,
    reloaded,
    reload_refused,
    reload_needs_restart,
    config_problem,
    keys_missing,
    keys_reloaded,
    keys_reload_refused,
    open_files_limited,
    explains_decisions,
    metrics_moved,
    host_lacks,
    tokenizer_not_read,
    cannot_start,
    draining,
    steps_left,
    handover_refused,
    handed_over,
    stopped,
    // its samplers
    sampler_started,
    sampler_not_started,
    sampler_not_pinned,
    sampler_failed,
    sampler_lost,
    sampler_hung,
    capture_failed,
    // its sessions
    session_opened,
    session_ended,
    session_adopted,
    session_asked_back,
    session_not_served,
    segment_lost,
    files_removed,
    segment_removed,
    segment_left_alone,
    client_lost,
    writer_lost,
    step_given_up,
    hot_set_changed,
    // its peers
    open_refused,
    open_failed,
    message_refused,
    key_refused,
    connection_refused,
    peer_unreachable,
    // a stand-in
    stand_in_began,
    stand_in_gave_back,
    stand_in_failed,
    // a relay
    relay_waiting,
    relay_joined,
    relay_not_joined,
    relay_left,
    relay_attached,
    relay_let_go,
    relay_refused_record,
    relay_failed,
    relay_stopped,
    // the log itself
    lines_left_out,
    lines_lost,
    count
};
constexpr auto kEvents = static_cast<std::size_t>(Event::count);

struct EventInfo {
    Event event;
    std::string_view name;
    Level level;
    std::string_view means;
    std::string_view what_to_do;
};
const EventInfo& info_of(Event event);

// docs/log-events.md; a test compares the two.
std::string reference_markdown();

}  // namespace croupier::event_log
