#include "event_log/events.h"

#include <array>

namespace croupier::event_log {
namespace {

constexpr std::string_view kNone = "none";

constexpr std::array<EventInfo, kEvents> kTable = {{
    {Event::starting, "starting", Level::info, "croupierd starts; the line names its version and its file",
     kNone},
    {Event::setting, "setting", Level::info,
     "at the start: one line for each key that differs from its default", kNone},
    {Event::ready, "ready", Level::info, "samplers run, and the sockets listen", kNone},
    {Event::reloaded, "reloaded", Level::info, "SIGHUP: the file's reloadable keys are in effect", kNone},
    {Event::reload_refused, "reload_refused", Level::error, "SIGHUP: the file has errors; nothing changed",
     "fix the errors in the `config_problem` lines above, and reload again"},
    {Event::reload_needs_restart, "reload_needs_restart", Level::warn,
     "SIGHUP: this key differs in the file, but keeps its running value",
     "`systemctl restart croupierd`, which hands the sessions over"},
    {Event::config_problem, "config_problem", Level::error, "one error in the configuration, with its line",
     "fix it; `croupierd --check-config` checks the file"},
    {Event::keys_missing, "keys_missing", Level::warn,
     "the list of authorised CURVE keys is empty; no client can connect over TCP",
     "write the engines' public keys into the file, one a line, and reload"},
    {Event::keys_reloaded, "keys_reloaded", Level::info,
     "SIGHUP: the list of authorised CURVE keys was read again", kNone},
    {Event::keys_reload_refused, "keys_reload_refused", Level::error,
     "SIGHUP: a key file cannot be read; the earlier keys stay",
     "fix the file that the line names, and reload again"},
    {Event::open_files_limited, "open_files_limited", Level::warn,
     "the daemon could not raise its limit of open files", "raise the limit (`LimitNOFILE` in the unit)"},
    {Event::explains_decisions, "explains_decisions", Level::warn,
     "`metrics.explain` is on: every user who can reach `metrics.listen` can read prompts and outputs",
     "turn it off when it is not needed; bind `metrics.listen` to an address that only operators can reach"},
    {Event::metrics_moved, "metrics_moved", Level::warn,
     "another program uses the default port of `metrics.listen`; the daemon took a free one",
     "none without Prometheus; otherwise set `metrics.listen` of one of the two"},
    {Event::host_lacks, "host_lacks", Level::warn,
     "this host does not fit a key: it lacks a part, or a file is not safe; the daemon starts",
     "do what the line says"},
    {Event::tokenizer_not_read, "tokenizer_not_read", Level::warn,
     "`metrics.tokenizer` could not be read; `/explain` shows ids without text",
     "fix the file or name another, and restart"},
    {Event::cannot_start, "cannot_start", Level::critical,
     "the daemon exits: something that the line names is missing or in use", "do what the line says"},
    {Event::draining, "draining", Level::info, "the daemon ends each session when its steps are taken",
     kNone},
    {Event::steps_left, "steps_left", Level::warn,
     "a session still had steps in flight after `sessions.drain_timeout_ms`",
     "stop the engine first, or raise the timeout"},
    {Event::handover_refused, "handover_refused", Level::warn,
     "a restart could not hand the sessions over; they drain, or the daemon serves on",
     "none after an upgrade that changes layouts; otherwise correct what the line names"},
    {Event::handed_over, "handed_over", Level::info,
     "the daemon exits; its sessions wait for the next daemon", "start the next daemon, as systemd does"},
    {Event::stopped, "stopped", Level::info, "the daemon exits; its sessions have ended", kNone},

    {Event::sampler_started, "sampler_started", Level::debug, "a sampler process runs", kNone},
    {Event::sampler_not_started, "sampler_not_started", Level::error,
     "a sampler process could not be created; the daemon tries again",
     "check the limits on processes and memory"},
    {Event::sampler_not_pinned, "sampler_not_pinned", Level::warn,
     "a sampler could not be pinned to its cores",
     "compare `samplers.cores` with the cores that the daemon may use"},
    {Event::sampler_failed, "sampler_failed", Level::critical, "a sampler exits; the line says why",
     "do what the line says; otherwise report it"},
    {Event::sampler_lost, "sampler_lost", Level::warn,
     "a sampler ended; it is restarted, and other samplers decide its columns",
     "if it repeats: signal 9 is often a lack of memory; report others, with the row (`croupier explain`)"},
    {Event::sampler_hung, "sampler_hung", Level::error,
     "a sampler sent no heartbeat for `samplers.heartbeat_timeout_ms`; it is killed and restarted",
     "check whether the host was overloaded or suspended; otherwise report it"},
    {Event::capture_failed, "capture_failed", Level::warn, "a decision for `/explain` could not be recorded",
     "do what the line says; often /dev/shm is full"},

    {Event::session_opened, "session_opened", Level::info,
     "an engine opened a session; the line has its geometry", kNone},
    {Event::session_ended, "session_ended", Level::info, "a session ended, and its segment was removed",
     kNone},
    {Event::session_adopted, "session_adopted", Level::info,
     "the daemon continues a session of an earlier daemon", kNone},
    {Event::session_asked_back, "session_asked_back", Level::warn,
     "a stand-in, or samplers of a dead daemon, still serve a session; the daemon requests it",
     "none; if no `session_adopted` follows, stop the stand-in"},
    {Event::session_not_served, "session_not_served", Level::error, "a sampler cannot map a session",
     "do what the line says; for `no_memory`, free memory"},
    {Event::segment_lost, "segment_lost", Level::error,
     "a segment file was truncated while a sampler had it mapped",
     "find the process besides the engine that writes to `shm.dir`"},
    {Event::files_removed, "files_removed", Level::error,
     "a daemon's socket, or files in `shm.dir`, were removed while in use", "do what the line says"},
    {Event::segment_removed, "segment_removed", Level::info,
     "the daemon removed a segment that no process holds", kNone},
    {Event::segment_left_alone, "segment_left_alone", Level::error,
     "the daemon cannot serve a file in `shm.dir`",
     "none while an engine of another version uses it; otherwise `croupier cleanup`"},
    {Event::client_lost, "client_lost", Level::warn,
     "an engine's scheduler died; its session waits to be resumed",
     "restart the engine within `sessions.reattach_grace_ms`"},
    {Event::writer_lost, "writer_lost", Level::warn, "a rank's writer died",
     "restart the rank; steps wait for its logits"},
    {Event::step_given_up, "step_given_up", Level::warn,
     "a step's logits did not arrive within `sessions.step_deadline_ms`",
     "check the ranks that the line names"},
    {Event::hot_set_changed, "hot_set_changed", Level::info,
     "new sequences of a session get a hot set of another size", kNone},

    {Event::open_refused, "open_refused", Level::warn, "a request for a session was refused",
     "tell the engine's owner what the line says"},
    {Event::open_failed, "open_failed", Level::warn, "a session was admitted but could not be created",
     "do what the line says; often /dev/shm is full"},
    {Event::message_refused, "message_refused", Level::warn,
     "a socket received an invalid message, or one that its sender may not send",
     "check which client connects, and its version"},
    {Event::key_refused, "key_refused", Level::warn, "a client's CURVE key is not authorised",
     "authorise the key if the client is yours; otherwise close the port to it"},
    {Event::connection_refused, "connection_refused", Level::warn,
     "a connection was closed: its user, its address or all of them together have too many",
     "find what connects so often; for many engines of one user, raise `control.connections_per_peer` and "
     "the limit of open files"},
    {Event::peer_unreachable, "peer_unreachable", Level::debug, "the receiver of an answer is gone", kNone},

    {Event::stand_in_began, "stand_in_began", Level::warn, "the daemon is gone, and the stand-in decides",
     "restart the daemon"},
    {Event::stand_in_gave_back, "stand_in_gave_back", Level::warn, "a daemon is back and decides again",
     kNone},
    {Event::stand_in_failed, "stand_in_failed", Level::critical, "the stand-in exits; the line says why",
     "do what the line says; without a stand-in, nothing decides while the daemon is gone"},

    {Event::relay_waiting, "relay_waiting", Level::info, "the relay waits for a scheduler",
     "start the scheduler, if it should run"},
    {Event::relay_joined, "relay_joined", Level::info, "a scheduler's group is complete, and records arrive",
     kNone},
    {Event::relay_not_joined, "relay_not_joined", Level::warn,
     "the scheduler refused this relay, or left; the relay tries again",
     "do what the line says: another member number, key or version"},
    {Event::relay_left, "relay_left", Level::warn, "the group ended: the scheduler left or died",
     "restart the scheduler, if it should run"},
    {Event::relay_attached, "relay_attached", Level::info,
     "the relay became the client of a session on this host", kNone},
    {Event::relay_let_go, "relay_let_go", Level::info, "the session is free for another client", kNone},
    {Event::relay_refused_record, "relay_refused_record", Level::warn,
     "a record could not be applied; the scheduler is told why", "do what the line says"},
    {Event::relay_failed, "relay_failed", Level::critical,
     "the relay exits: an option or the host is not suitable", "do what the line says"},
    {Event::relay_stopped, "relay_stopped", Level::info, "the relay was stopped and left its session", kNone},

    {Event::lines_left_out, "lines_left_out", Level::warn,
     "this many lines of the event `of_event` were dropped by its rate limit",
     "look at the earlier lines of that event"},
    {Event::lines_lost, "lines_lost", Level::warn,
     "this many lines were dropped because standard error was full", "find out why its reader does not read"},
}};

constexpr bool in_order() {
    for (std::size_t i = 0; i < kTable.size(); ++i) {
        if (static_cast<std::size_t>(kTable[i].event) != i) return false;
    }
    return true;
}
static_assert(in_order(), "the table has the order of the enumeration");

}  // namespace

std::string_view name_of(Level level) {
    constexpr std::array<std::string_view, 6> kNames = {"trace", "debug", "info",
                                                        "warn",  "error", "critical"};
    return kNames.at(static_cast<std::size_t>(level));
}

const EventInfo& info_of(Event event) {
    return kTable.at(static_cast<std::size_t>(event));
}

std::string reference_markdown() {
    std::string page =
        "# Log events\n\n"
        "This page lists every event in the logs of `croupierd`, its samplers, stand-ins and `croupier "
        "relay`.\n"
        "[watching.md](watching.md#logs) describes the format of a line. The page is generated from the "
        "table in\n"
        "`event_log/events.cpp`.\n\n"
        "| event | level | meaning | action |\n| --- | --- | --- | --- |\n";
    for (const EventInfo& info : kTable) {
        page += "| `" + std::string(info.name) + "` | " + std::string(name_of(info.level)) + " | " +
                std::string(info.means) + " | " + std::string(info.what_to_do) + " |\n";
    }
    return page;
}

}  // namespace croupier::event_log
