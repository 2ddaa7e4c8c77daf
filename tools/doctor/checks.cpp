#include "tools/doctor/checks.h"

#include <algorithm>
#include <exception>

namespace croupier::tools::doctor {
namespace {

bool is_named(const std::string& id, const std::vector<std::string>& names) {
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& name) { return id == name || id.starts_with(name + "."); });
}

Finding found_by(const Check& check, const Examined& examined) {
    if (!examined.host.is_real() && !check.of_files) {
        return skipped("this check needs the running host, not the files of --sysroot");
    }
    try {
        return check.run(examined);
    } catch (const std::exception& error) {
        return skipped(std::string("the check itself failed: ") + error.what(), "please report this");
    }
}

}  // namespace

const std::vector<Check>& all_checks() {
    static const std::vector<Check> checks = {
        {"config.file", check_config, true},
        {"cpu.instructions", check_instructions},
        {"cpu.cores", check_cores, true},
        {"cpu.cpuset", check_cpuset, true},
        {"cpu.quota", check_quota, true},
        {"cpu.pinning", check_pinning, true},
        {"cpu.speed", check_speed, true},
        {"numa.samplers", check_sampler_nodes, true},
        {"numa.gpus", check_gpu_nodes, true},
        {"pcie.links", check_links, true},
        {"memory.mount", check_mount, true},
        {"memory.space", check_space},
        {"memory.limit", check_memory_limit, true},
        {"memory.locked", check_locked_memory, true},
        {"memory.huge_pages", check_huge_pages, true},
        {"files.directory", check_shm_directory},
        {"files.segments", check_shm_files},
        {"files.sockets", check_run_files},
        {"files.logout", check_logout, true},
        {"user.daemon", check_daemon_user},
        {"user.engine", check_engine_user},
        {"daemon.answers", check_daemon},
        {"daemon.samplers", check_daemon_samplers},
        {"daemon.version", check_daemon_version},
        {"daemon.metrics", check_metrics_address},
        {"network.peer", check_peer},
        {"engine.library", check_library},
        {"engine.plugin", check_plugin},
    };
    return checks;
}

std::vector<Finding> run_checks(const Examined& examined, const std::vector<std::string>& without) {
    std::vector<Finding> findings;
    for (const Check& check : all_checks()) {
        findings.push_back(is_named(check.id, without) ? skipped("left out by --skip")
                                                       : found_by(check, examined));
        findings.back().check = check.id;
    }
    return findings;
}

Finding check_config(const Examined& examined) {
    const std::string& path = examined.loaded.file;
    if (examined.loaded.config && !path.empty()) return fine(path + " is valid", {{"file", path}});
    if (examined.loaded.config) {
        return skipped(std::string("no configuration file: the other checks use the defaults of ") +
                           (examined.paths.is_host ? "the host's daemon" : "this user's own daemon"),
                       "if the daemon has a file, name it with --config");
    }
    const auto& problems = examined.loaded.problems;
    std::string what = problems.empty() ? path + " cannot be read" : to_string(problems.front());
    if (problems.size() > 1) what += " (and " + std::to_string(problems.size() - 1) + " more)";
    return broken(what + "; the other checks use the defaults",
                  "croupierd --config " + path + " --check-config; docs/configuration.md explains every key",
                  {{"file", path}, {"problems", static_cast<std::int64_t>(problems.size())}});
}

}  // namespace croupier::tools::doctor
