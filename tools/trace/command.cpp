#include "tools/trace/command.h"

#include <signal.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <exception>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "command_line/number_between.h"
#include "command_line/progress.h"
#include "proto/default_paths.h"
#include "shm/snapshot.h"
#include "tools/instance_words.h"
#include "tools/journal_watch.h"
#include "tools/printable.h"
#include "tools/trace/step_story.h"
#include "tools/whole_file.h"

namespace croupier::tools {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

// A sampler's ring holds this much time at four million columns a second.
constexpr std::chrono::milliseconds kReadPeriod{1};
constexpr std::chrono::milliseconds kLookPeriod{250};
// Trace viewers cannot open more.
constexpr std::size_t kMostColumns = 1'000'000;

struct TraceOptions {
    std::string directory = proto::default_paths().shm_dir;
    std::string instance = "default";
    double seconds = 5.0;
    bool kept = false;
    std::string session;
    std::string output = "trace.json";
    bool json = false;
};

volatile sig_atomic_t told_to_end = 0;

void end_early_on(int signal) {
    struct sigaction action {};
    action.sa_handler = [](int) { told_to_end = 1; };
    ::sigaction(signal, &action, nullptr);
}

class Collector {
  public:
    explicit Collector(const TraceOptions& options)
        : options_(options),
          watch_(options.directory, options.instance,
                 options.kept ? shm::JournalReader::From::oldest : shm::JournalReader::From::now) {}

    shm::Result<bool> collect() {
        CROUPIER_TRY(read());
        look();
        if (options_.kept) return true;
        const auto begin = Clock::now();
        const auto end = begin + std::chrono::duration_cast<Clock::duration>(
                                     std::chrono::duration<double>(options_.seconds));
        command_line::Progress progress("seconds", 1000);
        progress.begin("tracing", static_cast<std::uint64_t>(options_.seconds * 1000));
        for (auto now = begin; now < end && !is_over();) {
            std::this_thread::sleep_for(std::min<Clock::duration>(kReadPeriod, end - now));
            CROUPIER_TRY(read());
            const auto last = std::exchange(now, Clock::now());
            if (now >= next_look_) look();
            progress.advance(static_cast<std::uint64_t>(
                std::chrono::duration_cast<std::chrono::milliseconds>(now - last).count()));
        }
        look();
        return true;
    }

    // Moves the collected records out.
    TraceMaterial take() { return std::exchange(material_, {}); }
    std::uint64_t lost() const { return lost_; }
    bool was_full() const { return was_full_; }
    bool daemon_alive() const { return watch_.daemon_alive(); }

  private:
    bool is_over() const { return told_to_end != 0 || was_full_; }

    shm::Result<bool> read() {
        CROUPIER_TRY_VALUE(part, watch_.read());
        material_.columns.insert(material_.columns.end(), part.columns.begin(), part.columns.end());
        material_.steps.insert(material_.steps.end(), part.steps.begin(), part.steps.end());
        lost_ += part.lost;
        was_full_ = material_.columns.size() >= kMostColumns;
        return true;
    }

    // Repeated because sessions open and close during the trace, and names are lost with them.
    void look() {
        next_look_ = Clock::now() + kLookPeriod;
        const auto snapshot = shm::observe(options_.directory, options_.instance);
        if (!snapshot) return;
        for (const auto& session : snapshot.value().sessions)
            material_.session_names[session.id] = session.name;
        for (const auto& sampler : snapshot.value().samplers) material_.cores[sampler.index] = sampler.core;
    }

    const TraceOptions& options_;
    JournalWatch watch_;
    TraceMaterial material_;
    std::uint64_t lost_ = 0;
    bool was_full_ = false;
    Clock::time_point next_look_;
};

// Returns false if no session had that name.
bool keep_session(TraceMaterial& material, const std::string& name) {
    std::set<std::uint64_t> ids;
    for (const auto& [id, known] : material.session_names) {
        if (known == name) ids.insert(id);
    }
    std::erase_if(material.columns, [&](const auto& of) { return !ids.contains(of.record.session_id); });
    std::erase_if(material.steps, [&](const auto& of) { return !ids.contains(of.session_id); });
    return !ids.empty();
}

int fail(const TraceOptions& options, const std::string& what) {
    if (options.json) {
        std::cout << json{{"error", what}}.dump(-1, ' ', false, json::error_handler_t::replace) << "\n";
    } else {
        std::cerr << what << "\n";
    }
    return 1;
}

std::string names_of(const TraceMaterial& material) {
    std::string names;
    for (const auto& [id, name] : material.session_names)
        names += (names.empty() ? "" : ", ") + printable(name);
    return names.empty() ? "none" : names;
}

void report(const TraceOptions& options, const Collector& collector, const StepStory& story) {
    const TraceMaterial& material = story.material();
    std::set<std::uint64_t> sessions;
    for (const auto& column : material.columns) sessions.insert(column.record.session_id);
    if (options.json) {
        const json summary = {{"output", options.output},
                              {"columns", material.columns.size()},
                              {"steps", material.steps.size()},
                              {"sessions", sessions.size()},
                              {"entries_lost", collector.lost()},
                              {"events", story.events()},
                              {"stopped_full", collector.was_full()}};
        std::cout << summary << "\n";
        return;
    }
    std::cout << options.output << ": " << material.columns.size() << " columns and " << material.steps.size()
              << " steps of " << sessions.size() << " sessions, " << story.events() << " events\n";
    if (collector.lost() > 0)
        std::cout << collector.lost() << " entries were overwritten before they were read\n";
    if (collector.was_full())
        std::cout << "the trace ended early: trace viewers cannot open more than " << kMostColumns
                  << " columns\n";
    if (material.columns.empty()) std::cout << "no column was decided during the trace\n";
    if (!collector.daemon_alive()) std::cout << "the daemon is dead: these are its samplers' last records\n";
    std::cout << "open it at https://ui.perfetto.dev, or as chrome://tracing in Chromium\n";
}

int run_trace(const TraceOptions& options) {
    // Opened first, so that a bad path fails at once and not after the trace.
    WholeFile file(options.output);
    file.delete_on_signals({SIGHUP});
    end_early_on(SIGINT);
    end_early_on(SIGTERM);
    Collector collector(options);
    if (const auto collected = collector.collect(); !collected) {
        return fail(options, inspection_error(options.instance, collected.error()));
    }
    // Writing may take long, so from here on a signal ends the process at once.
    file.delete_on_signals({SIGINT, SIGTERM});
    TraceMaterial material = collector.take();
    if (!options.session.empty() && !keep_session(material, options.session)) {
        return fail(options, "no session is named " + printable(options.session) +
                                 "; sessions: " + names_of(material));
    }
    const StepStory story(std::move(material));
    {
        command_line::Progress progress("events", 1);
        progress.begin("writing", story.events());
        story.write(file.stream(),
                    {{"program", std::string("croupier trace ") + CROUPIER_VERSION},
                     {"instance", options.instance},
                     {"entries_lost", collector.lost()}},
                    [&] { progress.advance(1); });
    }
    file.commit();
    report(options, collector, story);
    return 0;
}

}  // namespace

void add_trace_command(CLI::App& app, int& status) {
    auto* command = app.add_subcommand("trace", "Record steps and columns for a trace viewer");
    const auto options = std::make_shared<TraceOptions>();
    command->add_option("-i,--instance", options->instance, "Name of the daemon (its key `instance`)")
        ->capture_default_str();
    command
        ->add_option("--shm-dir", options->directory,
                     "Directory of the daemon's segments (its key `shm.dir`)")
        ->capture_default_str();
    auto* seconds = command->add_option("--seconds", options->seconds, "How long to record")
                        ->check(command_line::number_between(0.01, 600.0))
                        ->capture_default_str();
    command
        ->add_flag("--kept", options->kept,
                   "Write the records that samplers already hold, even of a dead daemon")
        ->excludes(seconds);
    command->add_option("--session", options->session, "Only the session with this name");
    command->add_option("-o,--output", options->output, "The file to write")->capture_default_str();
    command->add_flag("--json", options->json, "Print a summary as one JSON object");
    command->footer(R"(Examples:
  croupier trace --seconds 5 -o trace.json
      then open it at https://ui.perfetto.dev
  croupier trace --kept -o post-mortem.json
      the last 4,096 columns of each sampler, alive or dead

For each step, the trace shows how long it waited for logits, how long the decisions took, how long they
waited to be taken, and which rank was last. For each column, it shows the sampler, the path, and how much of
the row was read. Samplers always keep these records, so a trace does not slow them down. Ctrl-C ends the
trace early and writes the file; a second Ctrl-C ends it at once without a file.)");
    command->callback([options, &status] {
        try {
            status = run_trace(*options);
        } catch (const std::exception& error) {
            status = fail(*options, error.what());
        }
    });
}

}  // namespace croupier::tools
