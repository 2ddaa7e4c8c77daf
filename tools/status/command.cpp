#include "tools/status/command.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "config/config.h"
#include "shm/snapshot.h"
#include "tools/status/cleanup.h"
#include "tools/status/table.h"

namespace croupier::tools {
namespace {

struct Target {
    std::string directory = config::Shm().dir;
    std::string instance = "default";
    bool json = false;
};

std::shared_ptr<Target> add_target(CLI::App& command) {
    auto target = std::make_shared<Target>();
    command.add_option("-i,--instance", target->instance, "The daemon's `instance`")->capture_default_str();
    command.add_option("--shm-dir", target->directory, "The daemon's `shm.dir`")->capture_default_str();
    command.add_flag("--json", target->json, "One JSON object instead of a table");
    return target;
}

int say_error(const shm::Error& error, const Target& target) {
    if (target.json) {
        std::cout << nlohmann::json{{"error", error.message}, {"code", shm::errc_name(error.code)}} << "\n";
    } else {
        std::cerr << error.message << "\n";
        if (error.code == shm::Errc::not_found) {
            std::cerr << "is croupierd running, and its instance called '" << target.instance << "'?\n";
        }
    }
    return 1;
}

int show_status(const Target& target) {
    auto snapshot = shm::observe(target.directory, target.instance);
    if (!snapshot) return say_error(snapshot.error(), target);
    if (target.json) {
        std::cout << shm::to_json(snapshot.value()) << "\n";
    } else {
        std::cout << to_table(snapshot.value());
    }
    return snapshot.value().daemon_alive ? 0 : 3;
}

int run_cleanup(const Target& target) {
    auto cleaned = clean_up(target.directory, target.instance);
    if (!cleaned) return say_error(cleaned.error(), target);
    if (target.json) {
        std::cout << nlohmann::json{{"removed", cleaned.value().removed}, {"kept", cleaned.value().kept}}
                  << "\n";
        return 0;
    }
    for (const auto& path : cleaned.value().removed) std::cout << "removed " << path << "\n";
    for (const auto& why : cleaned.value().kept) std::cout << "kept    " << why << "\n";
    if (cleaned.value().removed.empty() && cleaned.value().kept.empty()) std::cout << "nothing to remove\n";
    return 0;
}

}  // namespace

void add_status_commands(CLI::App& app, int& status) {
    auto* show = app.add_subcommand("status", "What a daemon does: samplers, sessions, rings, errors");
    show->footer(
        "Reads the daemon's files without disturbing anybody, also those of a dead one (exit status 3).");
    const auto shown = add_target(*show);
    show->callback([shown, &status] { status = show_status(*shown); });

    auto* cleanup = app.add_subcommand("cleanup", "Remove what a dead daemon left in shared memory");
    const auto cleaned = add_target(*cleanup);
    cleanup->callback([cleaned, &status] { status = run_cleanup(*cleaned); });
}

}  // namespace croupier::tools
