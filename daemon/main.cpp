#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <limits>

#include "command_line/parse.h"
#include "config/load.h"
#include "config/write.h"
#include "daemon/logging.h"
#include "daemon/supervisor/host_lacks.h"
#include "daemon/supervisor/stand_in.h"
#include "daemon/supervisor/successor.h"
#include "daemon/supervisor/supervisor.h"
#include "daemon/worker/sampler_process.h"
#include "event_log/options.h"
#include "proto/bell.h"

namespace {

using croupier::config::LoadResult;
using croupier::config::Problem;
using croupier::daemon::Starter;

constexpr const char* kFooter = R"(
Examples:
  croupierd
      run the daemon until SIGTERM
  croupierd --print-config >croupierd.yaml
      write a configuration with all defaults
  croupierd --config croupierd.yaml --check-config
      check the file
  croupierd --config croupierd.yaml
      run the daemon with this file
  croupierd --stand-in-fd 3 3<>SEGMENT
      decide for one session while there is no daemon

Signals:
  SIGTERM, SIGINT   drain: steps in flight are decided and taken, then the
                    daemon exits
  SIGUSR1           hand over: the daemon exits; its sessions wait for the
                    next one (systemctl restart)
  SIGHUP            read the configuration again; log which changes need a
                    restart)";

int report(const std::vector<Problem>& problems) {
    for (const auto& problem : problems) std::cerr << croupier::config::to_string(problem) << "\n";
    std::cerr << problems.size() << (problems.size() == 1 ? " problem" : " problems")
              << "; docs/configuration.md explains every key\n";
    return 2;
}

int check(const LoadResult& loaded) {
    for (const auto& lack : croupier::daemon::lacks_of_host(*loaded.config)) {
        if (lack.prevents_start) continue;
        const Problem problem = loaded.problem(lack.key, lack.message);
        std::cerr << "warning: " << croupier::config::to_string(problem) << "\n";
    }
    const auto problems = croupier::daemon::problems_of_start(loaded, Starter::any_user);
    if (!problems.empty()) return report(problems);
    std::cout << loaded.origin() << (loaded.file.empty() ? " are valid\n" : " is valid\n");
    return 0;
}

int serve(const std::string& named, bool check_only, bool print_only, int used_by_fd) {
    const LoadResult loaded = croupier::config::load(named);
    if (!loaded.config) return report(loaded.problems);
    if (check_only) return check(loaded);
    if (print_only) {
        std::cout << croupier::config::to_yaml(*loaded.config);
        return 0;
    }
    croupier::event_log::configure(croupier::daemon::settings_of(loaded.config->log));
    croupier::daemon::log_configuration(loaded);
    croupier::daemon::log_lacks(croupier::daemon::lacks_of_host(*loaded.config));
    return croupier::daemon::run_supervisor(*loaded.config, named, used_by_fd);
}

// For the daemon whose place this one would take: see ask_successor().
int tell_start(const std::string& named) {
    const LoadResult loaded = croupier::config::load(named);
    const auto problems = croupier::daemon::problems_of_start(loaded, Starter::this_user);
    for (const auto& problem : problems) std::cout << croupier::config::to_string(problem) << "\n";
    if (!problems.empty()) return 2;
    std::cout << croupier::config::to_yaml(*loaded.config);
    return 0;
}

int refuse_log_options() {
    std::cerr
        << "--log-level and --log-format need --stand-in-fd; the daemon has log.level and log.format in "
           "its configuration\n";
    return 2;
}

std::string require_name(const std::string& file) {
    return file.empty() ? "the name of the file is empty" : "";
}

int run(int argc, char** argv) {
    CLI::App app{"croupierd: sample tokens from logits in shared memory, on CPUs", "croupierd"};
    app.footer(kFooter);
    app.set_version_flag("--version", CROUPIER_VERSION);
    std::string named;
    bool check_only = false;
    bool print_only = false;
    app.add_option("-c,--config", named,
                   std::string("YAML configuration file (default: ") + croupier::config::kHostFile +
                       " for the host's daemon if it exists; otherwise built-in defaults)")
        ->check(require_name);
    app.add_flag("--check-config", check_only, "Check the configuration and exit");
    app.add_flag("--print-config", print_only, "Print the effective configuration and exit");
    bool versions_only = false;
    app.add_flag("--layout-versions", versions_only,
                 "Print the versions of the shared-memory layouts and exit");
    croupier::daemon::StandInOptions stand_in;
    auto* standing_in =
        app.add_option("--stand-in-fd", stand_in.segment_fd,
                       "Run as a stand-in: decide for one session while its daemon is gone. NUMBER is a "
                       "descriptor of its segment, open for reading and writing; a path would be visible "
                       "to other users")
            ->option_text("NUMBER")
            ->check(CLI::Range(0, std::numeric_limits<int>::max()));
    app.add_option("--samplers", stand_in.samplers,
                   "With --stand-in-fd: number of samplers; 0: half of the cores")
        ->needs(standing_in)
        ->check(CLI::Range(0U, croupier::proto::kMaxSamplers));
    app.add_option("--heartbeat-timeout-ms", stand_in.heartbeat_timeout_ms,
                   "With --stand-in-fd: milliseconds without a heartbeat after which a sampler is killed")
        ->needs(standing_in)
        ->check(CLI::PositiveNumber);
    croupier::event_log::Settings log;
    croupier::event_log::add_options(app, log, "With --stand-in-fd: ");
    // What follows is how vLLM's plugin starts a private daemon and a stand-in, the supervisor its samplers,
    // and how a daemon asks the next one before it hands over; an empty group hides it from --help.
    app.add_option("--used-by-fd", stand_in.used_by_fd)->group("");
    bool start_only = false;
    app.add_flag("--check-start", start_only)->group("");
    croupier::daemon::SamplerOptions sampler;
    auto* index = app.add_option("--sampler", sampler.index)->group("");
    app.add_option("--instance", sampler.instance)->group("");
    app.add_option("--threads", sampler.threads)->group("");
    app.add_option("--cores", sampler.cores)->group("");
    app.add_option("--event-fd", sampler.event_fd)->group("");
    app.add_option("--plane-fd", sampler.plane_fd)->group("");
    app.add_option("--segments-fd", sampler.segments_fd)->group("");
    app.add_option("--supervisor", sampler.supervisor_pid)->group("");
    if (const auto over = croupier::command_line::parse(app, argc, argv)) return *over;
    if (versions_only) {
        std::cout << croupier::daemon::layout_versions() << "\n";
        return 0;
    }
    if (start_only) return tell_start(named);
    croupier::event_log::configure(log);
    if (standing_in->count() != 0) return croupier::daemon::run_stand_in(stand_in);
    if (index->count() == 0) {
        const bool misplaced = app.count("--log-level") + app.count("--log-format") != 0;
        return misplaced ? refuse_log_options() : serve(named, check_only, print_only, stand_in.used_by_fd);
    }
    return croupier::daemon::run_sampler(sampler);
}

}  // namespace

int main(int argc, char** argv) {
    // A reader of the log that has gone is an error of the write, not the daemon's end; so is a file that
    // would outgrow RLIMIT_FSIZE.
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGXFSZ, SIG_IGN);
    try {
        return run(argc, argv);
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "croupierd: %s\n", failure.what());
        return 1;
    }
}
