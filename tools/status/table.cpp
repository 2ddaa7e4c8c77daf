#include "tools/status/table.h"

#include <spdlog/fmt/fmt.h>

#include <string>

namespace croupier::tools {
namespace {

using proto::SessionCounter;

double seconds(std::uint64_t ns) {
    return static_cast<double>(ns) * 1e-9;
}

std::string bar(double share, int width) {
    std::string drawn;
    for (int i = 0; i < width; ++i) drawn += i < share * width ? "█" : "·";
    return drawn;
}

std::string sampler_lines(const shm::Snapshot& snapshot) {
    std::string text =
        fmt::format("{:>7} {:>8} {:>5} {:>6} {:>12} {:>10} {:>8} {:>7} {:>9} {:>8}  busy\n", "sampler", "pid",
                    "core", "alive", "heartbeat", "columns", "restarts", "states", "KiB", "dropped");
    for (const auto& sampler : snapshot.samplers) {
        const double busy = snapshot.busy_share(sampler);
        text += fmt::format(
            "{:>7} {:>8} {:>5} {:>6} {:>9.0f} ms {:>10} {:>8} {:>7} {:>9} {:>8}  {} {:.0f} %\n",
            sampler.index, sampler.pid, sampler.core, sampler.alive ? "yes" : "NO",
            seconds(sampler.heartbeat_age_ns) * 1e3, sampler.columns, sampler.restarts, sampler.states,
            sampler.state_bytes >> 10U, sampler.states_dropped, bar(busy, 10), busy * 100);
    }
    return text;
}

// The ranks whose logits do not come: in steps that do, they are behind for milliseconds.
std::string missing_ranks(const shm::SessionSnapshot& session) {
    std::string text;
    for (std::size_t rank = 0; rank < session.rank_behind_ns.size(); ++rank) {
        const double behind = seconds(session.rank_behind_ns[rank]);
        if (behind < 1) continue;
        const std::int32_t pid = rank < session.writer_pids.size() ? session.writer_pids[rank] : 0;
        text += fmt::format("  rank {}: no logits for the oldest step for {:.0f} s ({})\n", rank, behind,
                            pid == 0 ? "no writer lives" : fmt::format("pid {}", pid));
    }
    return text;
}

std::string session_lines(const shm::SessionSnapshot& session) {
    if (!session.fault.empty())
        return fmt::format("\nsession at {}\n  cannot be read: {}\n", session.path, session.fault);
    const auto& shape = session.geometry;
    const double depth = static_cast<double>(session.steps_in_flight) / shape.slots;
    std::string text = fmt::format(
        "\nsession {} ({}), {}\n  vocab {}, tp {}, batch {}, transport {}, {}, {} MiB; client pid {} {}; {} "
        "of {} "
        "writers\n"
        "  ring {} {} of {} slots in flight, {} decided and not taken; {} live sequences\n",
        session.name, session.id, shm::session_state_name(session.state), shape.vocab, shape.tp,
        shape.max_batch, shape.transport(), proto::name_of(shape.dtype), session.bytes >> 20U,
        session.client_pid, session.client_alive ? "alive" : "GONE", session.writers_alive, shape.tp,
        bar(depth, 10), session.steps_in_flight, shape.slots, session.steps_decided_not_taken,
        session.live_sequences);
    text += missing_ranks(session);
    const double decision = seconds(session.counter(SessionCounter::step_decision_ns));
    if (decision > 0) {
        text += fmt::format("  overlap {:.1f} % of the decision time was hidden behind the engine\n",
                            (1 - seconds(session.counter(SessionCounter::exposed_ns)) / decision) * 100);
    }
    if (session.hot_acceptance() > 0) {
        const std::string size =
            session.hot_size > 0 ? std::to_string(session.hot_size) + " ids" : "the row's";
        text += fmt::format(
            "  hot set of new sequences: {}; {:.1f} % of the untruncated draws came from theirs\n", size,
            session.hot_acceptance() * 100);
    }
    for (std::size_t i = 0; i < session.counters.size(); ++i) {
        const std::string name = proto::kSessionCounterText[i].name;
        if (session.counters[i] != 0 && !name.ends_with("_ns")) {
            text += fmt::format("  {:>22} {:>12}  {}\n", name, session.counters[i],
                                proto::kSessionCounterText[i].help);
        }
    }
    return text;
}

}  // namespace

std::string to_table(const shm::Snapshot& snapshot, bool stopped) {
    const char* state = stopped                 ? "STOPPED by a signal"
                        : snapshot.daemon_alive ? "alive"
                                                : "DEAD (it died, or handed over; its files remain)";
    std::string text = fmt::format("instance {}: daemon pid {} {}, up {:.0f} s\n\n", snapshot.instance,
                                   snapshot.daemon_pid, state, seconds(snapshot.up_ns));
    text += sampler_lines(snapshot);
    for (const auto& session : snapshot.sessions) text += session_lines(session);
    if (snapshot.sessions.empty()) text += "\nno sessions\n";
    return text;
}

}  // namespace croupier::tools
