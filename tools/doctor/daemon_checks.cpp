// The daemon that runs, and the libraries of engines: versions that fit each other.
#include <spdlog/fmt/fmt.h>

#include <filesystem>

#include "shm/build_note.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/library_note.h"

namespace croupier::tools::doctor {
namespace {

const char* kStart =
    "start one for this user with `croupierd`, or the host's with `systemctl start croupierd`; the plugins "
    "of vLLM and SGLang start their own if none runs";
const char* kRestart =
    "systemctl restart croupierd; sessions continue in the new daemon if the layouts are the same";

std::string pid_in_words(const Examined& examined) {
    return examined.daemon.pid ? fmt::format(" (pid {})", *examined.daemon.pid) : "";
}

std::string name_of(const Examined& examined) {
    if (examined.host.is_this_process()) return "";
    return examined.host.read_of_process("comm").value_or("");
}

const char* state_name(DaemonState state) {
    switch (state) {
        case DaemonState::unasked:
            return "unasked";
        case DaemonState::answers:
            return "answers";
        case DaemonState::absent:
            return "absent";
        case DaemonState::forbidden:
            return "forbidden";
        case DaemonState::silent:
            return "silent";
        case DaemonState::blind:
            return "blind";
        case DaemonState::other:
            break;
    }
    return "other";
}

bool program_was_replaced(const Examined& examined) {
    std::error_code failure;
    const auto program = std::filesystem::read_symlink(examined.host.of_process("exe"), failure);
    return !failure && program.string().ends_with(" (deleted)");
}

}  // namespace

Finding check_daemon(const Examined& examined) {
    const DaemonAnswer& daemon = examined.daemon;
    const std::string& endpoint = examined.config.control.endpoint;
    const std::vector<Fact> facts = {{"endpoint", endpoint},
                                     {"state", state_name(daemon.state)},
                                     {"pid", static_cast<std::int64_t>(daemon.pid.value_or(0))},
                                     {"sessions", static_cast<std::int64_t>(daemon.sessions)}};
    switch (daemon.state) {
        case DaemonState::unasked:
            return skipped(fmt::format("{} needs a CURVE key, which this command does not have", endpoint),
                           "run croupier status on the daemon's host");
        case DaemonState::answers:
            return fine(fmt::format("a daemon answers at {}{}, {} session{}", endpoint,
                                    pid_in_words(examined), daemon.sessions, daemon.sessions == 1 ? "" : "s"),
                        facts);
        case DaemonState::absent:
            // It is not started yet: this is how every host is before the first start.
            return {"", Level::skipped, fmt::format("no daemon runs: nothing listens at {}", endpoint),
                    kStart, facts};
        case DaemonState::forbidden:
            return broken(
                fmt::format("no permission: {} may not connect to {}", own_account().name, endpoint),
                "run it as root or as the daemon's user; user.engine says what this user's engines need",
                facts);
        case DaemonState::silent:
            if (!examined.host.is_this_process() && host::is_stopped(examined.host)) {
                return broken(fmt::format("the daemon{} is stopped by a signal and does not answer",
                                          pid_in_words(examined)),
                              fmt::format("kill -CONT {}", daemon.pid.value_or(0)), facts);
            }
            return broken(fmt::format("{} listens at {}{} and does not answer",
                                      name_of(examined).empty() ? "a program" : name_of(examined), endpoint,
                                      pid_in_words(examined)),
                          "if it is croupierd, its log says whether it is overloaded or still starting",
                          facts);
        case DaemonState::blind:
            return broken(
                fmt::format("a daemon serves at {}{}, but its files in {} were removed: neither metrics nor "
                            "`croupier status` find it ({})",
                            endpoint, pid_in_words(examined), examined.config.shm.dir, daemon.error),
                "restart it when no session is open; `loginctl enable-linger` keeps systemd-logind from "
                "removing files at logout",
                facts);
        case DaemonState::other:
            break;
    }
    return broken("the listener does not answer like this build's daemon: " + daemon.error,
                  "update the older of croupier and croupierd", facts);
}

Finding check_daemon_samplers(const Examined& examined) {
    if (!examined.daemon_lives()) return skipped("no daemon answers");
    std::size_t alive = 0;
    std::uint64_t restarts = 0;
    for (const SamplerAnswer& sampler : examined.daemon.samplers) {
        alive += sampler.alive ? 1 : 0;
        restarts += sampler.restarts;
    }
    const std::size_t all = examined.daemon.samplers.size();
    const std::vector<Fact> facts = {{"samplers", static_cast<std::int64_t>(all)},
                                     {"alive", static_cast<std::int64_t>(alive)},
                                     {"restarts", static_cast<std::int64_t>(restarts)}};
    const std::string remedy = "journalctl -u croupierd says why each of them died";
    if (alive == 0)
        return broken(fmt::format("none of the {} samplers is alive: no tokens are decided", all), remedy,
                      facts);
    if (alive < all) return slower(fmt::format("{} of {} samplers are alive", alive, all), remedy, facts);
    if (restarts > 0) {
        return slower(fmt::format("all {} samplers are alive, after {} restart{}", all, restarts,
                                  restarts == 1 ? "" : "s"),
                      remedy, facts);
    }
    return fine(all == 1 ? "the one sampler is alive" : fmt::format("all {} samplers are alive", all), facts);
}

Finding check_daemon_version(const Examined& examined) {
    const DaemonAnswer& daemon = examined.daemon;
    if (!examined.daemon_lives()) return skipped("no daemon answers");
    const std::string ours(shm::build_note().layouts());
    const std::vector<Fact> facts = {{"daemon", daemon.version},
                                     {"layouts", daemon.layouts},
                                     {"own", CROUPIER_VERSION},
                                     {"own_layouts", ours}};
    if (program_was_replaced(examined)) {
        return slower("the daemon's program was replaced after its start: the old version still runs",
                      kRestart, facts);
    }
    if (daemon.layouts.empty()) {
        return slower("the daemon does not report a version: its build is older than this command", kRestart,
                      facts);
    }
    if (daemon.layouts != ours || daemon.version != CROUPIER_VERSION) {
        return slower(fmt::format("the daemon is version {} ({}), this command {} ({})", daemon.version,
                                  daemon.layouts, CROUPIER_VERSION, ours),
                      kRestart, facts);
    }
    return fine(fmt::format("daemon and command are {} ({})", daemon.version, daemon.layouts), facts);
}

Finding check_library(const Examined& examined) {
    const std::string against =
        examined.daemon.layouts.empty() ? std::string(shm::build_note().layouts()) : examined.daemon.layouts;
    const char* whose = examined.daemon.layouts.empty() ? "this build" : "the daemon";
    const auto libraries = engine_libraries(examined);
    std::vector<Fact> facts = {{"layouts", against}};
    for (const EngineLibrary& library : libraries) {
        const std::string name = library.path + (library.loaded.empty() ? "" : " (" + library.loaded + ")");
        if (library.replaced) {
            return slower(fmt::format("{} was replaced while {} has it loaded", library.path, library.loaded),
                          "restart the engine when convenient", facts);
        }
        const auto note = note_of(library.file);
        facts.emplace_back(library.path, note ? note->version + "; " + note->layouts : "no version");
        if (!note) {
            if (!std::filesystem::exists(library.file)) {
                return broken(fmt::format("the engine's library {} is not there", name),
                              "install libcroupier1", facts);
            }
            return broken(
                fmt::format("old library: {} does not report a version; {} uses {}", name, whose, against),
                "install libcroupier1 or the wheel of the daemon's build, then restart the engine", facts);
        }
        if (note->layouts != against) {
            return broken(fmt::format("old library: {} uses {}, {} uses {}: the daemon refuses its sessions",
                                      name, note->layouts, whose, against),
                          "update the older of the two, then restart the engine", facts);
        }
    }
    if (libraries.empty()) {
        return skipped("no libcroupier.so found where the system and this Python look for it",
                       "name the engine's with --library FILE");
    }
    return fine(fmt::format("{} and {} use the same layouts: {}", libraries.front().path, whose, against),
                facts);
}

}  // namespace croupier::tools::doctor
