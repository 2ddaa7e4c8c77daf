#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>

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

constexpr const char* kFooter = R"(
Examples:
  croupierd
      serve until SIGTERM
  croupierd --print-config >croupierd.yaml
      a file to begin with
  croupierd --config croupierd.yaml --check-config
      is the file sound?
  croupierd --config croupierd.yaml
      serve with it
  croupierd --stand-in-fd 3 3<>SEGMENT
      beside an engine: decides while there is no daemon

Signals:
  SIGTERM, SIGINT   drain: steps in flight finish and are taken, then it ends
  SIGUSR1           hand over: it ends, and its sessions wait for the next
                    daemon (systemctl restart)
  SIGHUP            read the configuration again; say which changes need a
                    restart)";

int report(const std::vector<Problem>& problems) {
    for (const auto& problem : problems) std::cerr << croupier::config::to_string(problem) << "\n";
    std::cerr << problems.size() << (problems.size() == 1 ? " problem" : " problems")
              << "; docs/configuration.md explains every key\n";
    return 2;
}

int check(const LoadResult& loaded) {
    std::vector<Problem> problems;
    for (const auto& lack : croupier::daemon::lacks_of_host(*loaded.config)) {
        const Problem problem = loaded.problem(lack.key, lack.message);
        if (lack.prevents_start) {
            problems.push_back(problem);
        } else {
            std::cerr << "warning: " << croupier::config::to_string(problem) << "\n";
        }
    }
    if (!problems.empty()) return report(problems);
    std::cout << loaded.origin() << (loaded.file.empty() ? " are sound\n" : " is sound\n");
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

int refuse_log_options() {
    std::cerr
        << "--log-level and --log-format go with --stand-in-fd; the daemon has log.level and log.format in "
           "its configuration\n";
    return 2;
}

std::string require_name(const std::string& file) {
    return file.empty() ? "an empty name names no file" : "";
}

int run(int argc, char** argv) {
    CLI::App app{"croupierd: turns logits in shared memory into tokens, off the GPUs", "croupierd"};
    app.footer(kFooter);
    app.set_version_flag("--version", CROUPIER_VERSION);
    std::string named;
    bool check_only = false;
    bool print_only = false;
    app.add_option(
           "-c,--config", named,
           std::string("The YAML configuration; default: ") + croupier::config::kHostFile +
               " for the host's daemon, built-in defaults for a user's own and where that is not there")
        ->check(require_name);
    app.add_flag("--check-config", check_only, "Say whether the configuration is sound, and end");
    app.add_flag("--print-config", print_only, "Print the effective configuration, and end");
    bool versions_only = false;
    app.add_flag("--layout-versions", versions_only,
                 "Print the versions of the layouts that engines share with this build, and end");
    croupier::daemon::StandInOptions stand_in;
    auto* standing_in =
        app.add_option("--stand-in-fd", stand_in.segment_fd,
                       "Instead of serving: decide for the session whose segment is open for reading and "
                       "writing as this descriptor, while its daemon is gone. A path would be seen by every "
                       "user of the host")
            ->option_text("NUMBER")
            ->check(CLI::NonNegativeNumber);
    app.add_option("--samplers", stand_in.samplers, "With --stand-in-fd: how many (0: half of the cores)")
        ->needs(standing_in)
        ->check(CLI::Range(0U, croupier::proto::kMaxSamplers));
    app.add_option("--heartbeat-timeout-ms", stand_in.heartbeat_timeout_ms,
                   "With --stand-in-fd: how long a sampler may stand still")
        ->needs(standing_in)
        ->check(CLI::PositiveNumber);
    croupier::event_log::Settings log;
    croupier::event_log::add_options(app, log, "With --stand-in-fd: ");
    // What follows is how vLLM's plugin starts a private daemon and a stand-in, and the supervisor its
    // samplers; an empty group hides it from --help.
    app.add_option("--used-by-fd", stand_in.used_by_fd)->group("");
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
