#include "event_log/events.h"

#include <array>

namespace croupier::event_log {
namespace {

constexpr std::string_view kNothing = "nothing";

constexpr std::array<EventInfo, kEvents> kTable = {{
    {Event::starting, "starting", Level::info, "croupierd of this version starts with this file", kNothing},
    {Event::setting, "setting", Level::info,
     "at the start, for each key of the configuration that differs from its default", kNothing},
    {Event::ready, "ready", Level::info, "samplers decide, and the sockets listen", kNothing},
    {Event::reloaded, "reloaded", Level::info, "SIGHUP: the reloadable keys of the file are in force",
     kNothing},
    {Event::reload_refused, "reload_refused", Level::error,
     "SIGHUP: the file has mistakes, and nothing has changed",
     "mend what the `config_problem` lines before it name, and reload again"},
    {Event::reload_needs_restart, "reload_needs_restart", Level::warn,
     "SIGHUP: this key has changed in the file, and stays as it was",
     "`systemctl restart croupierd`, which hands the sessions over"},
    {Event::config_problem, "config_problem", Level::error, "one mistake in the configuration, with its line",
     "mend it; `croupierd --check-config` says whether all are mended"},
    {Event::keys_missing, "keys_missing", Level::warn,
     "the list of authorised CURVE keys is empty: nobody may come in over TCP",
     "write the engines' public keys into the file, one a line, and reload"},
    {Event::keys_reloaded, "keys_reloaded", Level::info, "SIGHUP: so many CURVE keys are authorised",
     kNothing},
    {Event::keys_reload_refused, "keys_reload_refused", Level::error,
     "SIGHUP: a file of keys cannot be read, and the keys stay as they are",
     "mend the file that it names, and reload again"},
    {Event::open_files_limited, "open_files_limited", Level::warn,
     "the daemon could not raise its limit of open files",
     "raise it where the daemon is started (`LimitNOFILE`)"},
    {Event::explains_decisions, "explains_decisions", Level::warn,
     "`metrics.explain` is on: whoever reaches `metrics.listen` can read what users say",
     "take it away when nobody asks for explanations; until then let it listen where only operators come"},
    {Event::metrics_moved, "metrics_moved", Level::warn,
     "another program has the default port of `metrics.listen`; the daemon took a free one",
     "nothing, where nobody scrapes it; else set `metrics.listen` of one of the two"},
    {Event::host_lacks, "host_lacks", Level::warn,
     "this host does not have all that the key of the configuration names; the daemon goes on with the rest",
     "set the key to what the line says is there"},
    {Event::tokenizer_not_read, "tokenizer_not_read", Level::warn,
     "`/explain` shows tokens by their ids: `metrics.tokenizer` could not be read",
     "mend the file, or name another, and restart"},
    {Event::cannot_start, "cannot_start", Level::critical,
     "the daemon ends: what it says is missing or taken", "do what the line says"},
    {Event::draining, "draining", Level::info, "the daemon ends its sessions when their steps are taken",
     kNothing},
    {Event::steps_left, "steps_left", Level::warn,
     "a session had steps in flight when `sessions.drain_timeout_ms` was over",
     "end the engine first, or give it more time"},
    {Event::handover_refused, "handover_refused", Level::warn,
     "a restart could not hand the sessions over; they drain",
     "nothing, if the upgrade was to change the layouts; else take back the key that it names"},
    {Event::handed_over, "handed_over", Level::info,
     "the daemon ends, and its sessions wait for the next one", "start the next daemon; systemd does"},
    {Event::stopped, "stopped", Level::info, "the daemon has ended, and its sessions with it", kNothing},

    {Event::sampler_started, "sampler_started", Level::debug, "a sampler's process runs", kNothing},
    {Event::sampler_not_started, "sampler_not_started", Level::error,
     "the system gave no process for a sampler; it is tried again",
     "look at the limits of processes and memory"},
    {Event::sampler_not_pinned, "sampler_not_pinned", Level::warn, "a sampler runs on any core",
     "compare `samplers.cores` with the cores that the daemon may use"},
    {Event::sampler_failed, "sampler_failed", Level::critical, "a sampler ends, and says why",
     "do what the line says; report it where it says nothing that you know"},
    {Event::sampler_lost, "sampler_lost", Level::warn,
     "a sampler ended; it is started again, and its columns are decided by others",
     "if it comes again and again: signal 9 is often memory, others are a fault to report with the row "
     "(`croupier explain`)"},
    {Event::sampler_hung, "sampler_hung", Level::error,
     "a sampler stood still for `samplers.heartbeat_timeout_ms` and is killed",
     "look for what held up the host; report it if nothing did"},
    {Event::capture_failed, "capture_failed", Level::warn,
     "a decision that `/explain` asked for could not be written down",
     "do what the line says; often /dev/shm is full"},

    {Event::session_opened, "session_opened", Level::info, "an engine opened a session of this geometry",
     kNothing},
    {Event::session_ended, "session_ended", Level::info, "a session has ended, and its segment is removed",
     kNothing},
    {Event::session_adopted, "session_adopted", Level::info, "a session of an earlier daemon goes on",
     kNothing},
    {Event::session_asked_back, "session_asked_back", Level::warn,
     "a stand-in, or a dead daemon's samplers, still answer for a session",
     "nothing; if no `session_adopted` follows, end the stand-in"},
    {Event::session_not_served, "session_not_served", Level::error, "a sampler cannot map a session",
     "do what the line says; with `no_memory`, free some"},
    {Event::segment_lost, "segment_lost", Level::error, "somebody cut a segment's file off under a sampler",
     "find who writes to `shm.dir` beside the engine"},
    {Event::files_removed, "files_removed", Level::error,
     "files of the daemon or of a session were removed from `shm.dir` while they were in use",
     "do what the line says: keep systemd-logind from it, and open the session again when it suits you"},
    {Event::segment_removed, "segment_removed", Level::info, "the daemon removed a segment that nobody holds",
     kNothing},
    {Event::segment_left_alone, "segment_left_alone", Level::error,
     "a file in `shm.dir` is none that this daemon can serve",
     "nothing, while an engine of another version holds it; else `croupier cleanup`"},
    {Event::client_lost, "client_lost", Level::warn,
     "an engine's scheduler died; its session waits for one that resumes it",
     "start the engine again within `sessions.reattach_grace_ms`"},
    {Event::writer_lost, "writer_lost", Level::warn, "a rank's writer died",
     "start the rank again; steps wait for its logits"},
    {Event::step_given_up, "step_given_up", Level::warn,
     "a step's logits did not come within `sessions.step_deadline_ms`", "look at the ranks that it names"},
    {Event::hot_set_changed, "hot_set_changed", Level::info,
     "new sequences of a session get a hot set of another size", kNothing},

    {Event::open_refused, "open_refused", Level::warn, "somebody's request for a session was refused",
     "tell its owner what the line says"},
    {Event::open_failed, "open_failed", Level::warn, "a session was admitted and could not be made",
     "do what the line says; often /dev/shm is full"},
    {Event::message_refused, "message_refused", Level::warn,
     "what came over a socket was no message, or none that its sender may send",
     "look at who connects; a client of another version is one"},
    {Event::key_refused, "key_refused", Level::warn, "a peer's CURVE key is not on the list",
     "add the key if the peer is yours; else close the port to it"},
    {Event::connection_refused, "connection_refused", Level::warn,
     "a user, an address, or all of them have as many connections as they may, and a new one was closed",
     "find what connects so often; for many engines of one user raise `control.connections_per_peer`, and "
     "the limit of open files with it"},
    {Event::peer_unreachable, "peer_unreachable", Level::debug, "an answer's receiver is gone", kNothing},

    {Event::stand_in_began, "stand_in_began", Level::warn, "the daemon is gone, and the stand-in decides",
     "start the daemon again"},
    {Event::stand_in_gave_back, "stand_in_gave_back", Level::warn, "a daemon is back and decides again",
     kNothing},
    {Event::stand_in_failed, "stand_in_failed", Level::critical, "the stand-in ends, and says why",
     "do what the line says; until then nobody decides while the daemon is gone"},

    {Event::relay_waiting, "relay_waiting", Level::info, "no scheduler is there yet",
     "start the scheduler, if it should run"},
    {Event::relay_joined, "relay_joined", Level::info, "a scheduler's group is complete, and records come",
     kNothing},
    {Event::relay_not_joined, "relay_not_joined", Level::warn,
     "the scheduler refuses this relay, or is gone again; it is tried again",
     "do what the line says: another member, key or version"},
    {Event::relay_left, "relay_left", Level::warn, "the group is over: the scheduler left or died",
     "start the scheduler again, if it should run"},
    {Event::relay_attached, "relay_attached", Level::info,
     "the relay is the client of a session of this host", kNothing},
    {Event::relay_let_go, "relay_let_go", Level::info, "the session is free for another client", kNothing},
    {Event::relay_refused_record, "relay_refused_record", Level::warn,
     "a scheduler's record could not be carried out; it is told why", "do what the line says"},
    {Event::relay_failed, "relay_failed", Level::critical,
     "the relay ends: an option or the host does not fit", "do what the line says"},
    {Event::relay_stopped, "relay_stopped", Level::info,
     "the relay was told to end, and has let go of its session", kNothing},

    {Event::lines_left_out, "lines_left_out", Level::warn,
     "so many lines of the event `kind` were more than its limit",
     "look at the lines of that event before it"},
    {Event::lines_lost, "lines_lost", Level::warn, "so many lines found no room in standard error",
     "find out why its reader does not read"},
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
        "# Events of the log\n\n"
        "The lines of `croupierd`, of its samplers, of a stand-in and of `croupier relay`; what a line is "
        "made of says\n"
        "[watching.md](watching.md), section \"Logs\". This page is made of the table in "
        "`event_log/events.cpp`.\n\n"
        "| event | level | what has happened | what to do |\n| --- | --- | --- | --- |\n";
    for (const EventInfo& info : kTable) {
        page += "| `" + std::string(info.name) + "` | " + std::string(name_of(info.level)) + " | " +
                std::string(info.means) + " | " + std::string(info.what_to_do) + " |\n";
    }
    return page;
}

}  // namespace croupier::event_log
