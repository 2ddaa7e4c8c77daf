#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <iostream>

#include "config/load.h"
#include "config/write.h"
#include "daemon/logging.h"
#include "daemon/sampler_process.h"
#include "daemon/stand_in.h"
#include "daemon/successor.h"
#include "daemon/supervisor.h"
#include "event_log/options.h"
#include "proto/bell.h"

namespace {

using croupier::config::LoadResult;

constexpr const char* kFooter = R"(
Examples:
  croupierd --config /etc/croupier/croupierd.yaml --check-config   is the file sound?
  croupierd --config /etc/croupier/croupierd.yaml                  serve until SIGTERM
  croupierd --stand-in /dev/shm/croupier/croupier-main-1.seg       beside an engine: decides while there is no daemon
Signals:
  SIGTERM, SIGINT   drain: steps in flight finish and are taken, then the daemon ends
  SIGUSR1           hand over: the daemon ends, its sessions wait for the next one (systemctl restart)
  SIGHUP            read the configuration again; says which changes need a restart)";

int report(const LoadResult& loaded) {
    for (const auto& problem : loaded.problems) std::cerr << croupier::config::to_string(problem) << "\n";
    std::cerr << loaded.problems.size() << " problem(s); docs/configuration.md explains every key\n";
    return 2;
}

int serve(const std::string& path, bool check_only, bool print_only) {
    const LoadResult loaded = croupier::config::load_file(path);
    if (!loaded.config) return report(loaded);
    if (check_only) {
        std::cout << path << " is sound\n";
        return 0;
    }
    if (print_only) {
        std::cout << croupier::config::to_yaml(*loaded.config);
        return 0;
    }
    croupier::event_log::configure(croupier::daemon::settings_of(loaded.config->log));
    croupier::daemon::log_configuration(*loaded.config, path);
    return croupier::daemon::run_supervisor(*loaded.config, path);
}

int refuse_log_options(const std::string& path) {
    std::cerr
        << "--log-level and --log-format go with --stand-in; the daemon has log.level and log.format in "
        << path << "\n";
    return 2;
}

int run(int argc, char** argv) {
    CLI::App app{"croupierd: turns logits in shared memory into tokens, off the GPUs"};
    app.footer(kFooter);
    app.set_version_flag("--version", CROUPIER_VERSION);
    std::string path = "/etc/croupier/croupierd.yaml";
    bool check_only = false;
    bool print_only = false;
    app.add_option("-c,--config", path, "The YAML configuration")->capture_default_str();
    app.add_flag("--check-config", check_only, "Say whether the configuration is sound, and end");
    app.add_flag("--print-config", print_only, "Print the effective configuration, and end");
    bool versions_only = false;
    app.add_flag("--layout-versions", versions_only,
                 "Print the versions of the layouts that engines share with this build, and end");
    croupier::daemon::StandInOptions stand_in;
    auto* standing_in =
        app.add_option("--stand-in", stand_in.segment,
                       "Instead of serving: decide for the session of this segment while its daemon is gone")
            ->option_text("SEGMENT");
    app.add_option("--samplers", stand_in.samplers, "With --stand-in: how many (0: half of the cores)")
        ->needs(standing_in)
        ->check(CLI::Range(0U, croupier::proto::kMaxSamplers));
    app.add_option("--heartbeat-timeout-ms", stand_in.heartbeat_timeout_ms,
                   "With --stand-in: how long a sampler may stand still")
        ->needs(standing_in)
        ->check(CLI::PositiveNumber);
    croupier::event_log::Settings log;
    croupier::event_log::add_options(app, log, "With --stand-in: ");
    // What follows is how the supervisor starts its samplers; an empty group hides it from --help.
    croupier::daemon::SamplerOptions sampler;
    auto* index = app.add_option("--sampler", sampler.index)->group("");
    app.add_option("--instance", sampler.instance)->group("");
    app.add_option("--shm-dir", sampler.shm_directory)->group("");
    app.add_option("--threads", sampler.threads)->group("");
    app.add_option("--cores", sampler.cores)->group("");
    app.add_option("--event-fd", sampler.event_fd)->group("");
    app.add_option("--supervisor", sampler.supervisor_pid)->group("");
    CLI11_PARSE(app, argc, argv);
    if (versions_only) {
        std::cout << croupier::daemon::layout_versions() << "\n";
        return 0;
    }
    croupier::event_log::configure(log);
    if (standing_in->count() != 0) return croupier::daemon::run_stand_in(stand_in);
    if (index->count() == 0) {
        const bool misplaced = app.count("--log-level") + app.count("--log-format") != 0;
        return misplaced ? refuse_log_options(path) : serve(path, check_only, print_only);
    }
    return croupier::daemon::run_sampler(sampler);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "croupierd: %s\n", failure.what());
        return 1;
    }
}
