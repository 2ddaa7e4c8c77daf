#include "tools/status/command.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "proto/default_paths.h"
#include "shm/snapshot.h"
#include "tools/instance_words.h"
#include "tools/printable.h"
#include "tools/status/cleanup.h"
#include "tools/status/table.h"

namespace croupier::tools {
namespace {

struct Target {
    std::string directory = proto::default_paths().shm_dir;
    std::string instance = "default";
    bool json = false;
};

std::shared_ptr<Target> add_target(CLI::App& command) {
    auto target = std::make_shared<Target>();
    command.add_option("-i,--instance", target->instance, "Name of the daemon (its key `instance`)")
        ->capture_default_str();
    command
        .add_option("--shm-dir", target->directory, "Directory of the daemon's segments (its key `shm.dir`)")
        ->capture_default_str();
    command.add_flag("--json", target->json, "Print one JSON object");
    return target;
}

// A user whose engines the host's daemon serves, and who has none of its own.
bool only_host_serves(const Target& target) {
    return target.directory == proto::own_paths().shm_dir && proto::serving_paths().is_host;
}

int say_error(const shm::Error& error, const Target& target) {
    if (target.json) {
        std::cout << nlohmann::json{{"error", error.message}, {"code", shm::errc_name(error.code)}} << "\n";
    } else {
        std::cerr << inspection_error(target.instance, error) << "\n";
        if (error.code == shm::Errc::not_found && only_host_serves(target)) {
            std::cerr << "the host's daemon runs, but only root and its user can inspect it; run this "
                         "command as one of them\n";
        }
    }
    return 1;
}

bool is_stopped(const shm::Snapshot& seen) {
    return seen.daemon_alive && daemon_is_stopped(seen.daemon_pid);
}

int show_status(const Target& target) {
    auto snapshot = shm::observe(target.directory, target.instance);
    if (!snapshot) return say_error(snapshot.error(), target);
    const bool stopped = is_stopped(snapshot.value());
    if (target.json) {
        auto object = nlohmann::json::parse(shm::to_json(snapshot.value()));
        object["daemon"]["stopped"] = stopped;
        object.erase("build");  // this command's; the daemon may be another
        std::cout << object << "\n";
    } else {
        std::cout << to_table(snapshot.value(), stopped);
    }
    return snapshot.value().daemon_alive && !stopped ? 0 : 3;
}

int ping(const Target& target) {
    const auto observed = shm::observe(target.directory, target.instance);
    if (!observed) return say_error(observed.error(), target);
    const shm::Snapshot& seen = observed.value();
    const bool stopped = is_stopped(seen);
    const bool well = seen.daemon_alive && !stopped;
    const auto up_s = seen.up_ns / 1'000'000'000;
    if (target.json) {
        std::cout << nlohmann::json{{"alive", seen.daemon_alive},
                                    {"stopped", stopped},
                                    {"pid", seen.daemon_pid},
                                    {"up_seconds", up_s}}
                  << "\n";
    } else {
        std::cout << "croupierd, instance " << seen.instance << ", pid " << seen.daemon_pid
                  << (well      ? ": alive, up " + std::to_string(up_s) + " s"
                      : stopped ? ": stopped by a signal; SIGCONT lets it go on"
                                : ": dead (it died, or handed over)")
                  << "\n";
    }
    return well ? 0 : 3;
}

int run_cleanup(const Target& target) {
    auto cleaned = clean_up(target.directory, target.instance);
    if (!cleaned) return say_error(cleaned.error(), target);
    auto others = instances_in(target.directory);
    std::erase(others, target.instance);
    if (target.json) {
        auto kept = nlohmann::json::array();
        for (const Kept& each : cleaned.value().kept)
            kept.push_back({{"path", each.path}, {"reason", each.reason}});
        std::cout << nlohmann::json{{"removed", cleaned.value().removed},
                                    {"kept", kept},
                                    {"other_instances", others}}
                  << "\n";
        return 0;
    }
    for (const auto& path : cleaned.value().removed) std::cout << "removed " << path << "\n";
    for (const Kept& each : cleaned.value().kept)
        std::cout << "kept    " << each.path << ": " << each.reason << "\n";
    if (cleaned.value().removed.empty() && cleaned.value().kept.empty())
        std::cout << "nothing to remove of instance '" << target.instance << "' in " << target.directory
                  << "\n";
    for (const auto& other : others)
        std::cout << "not of this instance: files of '" << printable(other) << "'; see `croupier cleanup -i "
                  << printable(other) << "`\n";
    return 0;
}

}  // namespace

void add_status_commands(CLI::App& app, int& status) {
    auto* show = app.add_subcommand("status", "Show a daemon: samplers, sessions, rings, errors");
    show->footer(
        "Examples:\n"
        "  croupier status\n"
        "  croupier status --json | jq '.sessions[].name'\n"
        "\n"
        "It reads the daemon's files without disturbing it, also those of a daemon that is dead or "
        "stopped by a signal (exit status 3).");
    const auto shown = add_target(*show);
    show->callback([shown, &status] { status = show_status(*shown); });

    auto* asked =
        app.add_subcommand("ping", "Check whether the daemon is alive: one line and an exit status");
    asked->footer(
        "Examples:\n"
        "  croupier ping && echo up\n"
        "\n"
        "Exit status: 0 alive, 1 its files cannot be read (it may never have run), 3 dead or stopped by a "
        "signal.");
    const auto pinged = add_target(*asked);
    asked->callback([pinged, &status] { status = ping(*pinged); });

    auto* cleanup =
        app.add_subcommand("cleanup", "Remove the files that a dead daemon left in shared memory");
    cleanup->footer(
        "Examples:\n"
        "  croupier cleanup\n"
        "      after a daemon was killed and none will be started again\n"
        "  croupier cleanup -i main --shm-dir /dev/shm/croupier\n"
        "\n"
        "It removes nothing that a live process holds. The next croupierd of the same instance takes the "
        "files over, so that it needs no cleanup.");
    const auto cleaned = add_target(*cleanup);
    cleanup->callback([cleaned, &status] { status = run_cleanup(*cleaned); });
}

}  // namespace croupier::tools
