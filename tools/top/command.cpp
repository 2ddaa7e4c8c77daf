#include "tools/top/command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "command_line/number_between.h"
#include "proto/default_paths.h"
#include "shm/clock.h"
#include "tools/instance_words.h"
#include "tools/journal_watch.h"
#include "tools/top/account.h"
#include "tools/top/frame.h"
#include "tools/top/screen.h"
#include "tools/top/view_json.h"

namespace croupier::tools {
namespace {

using Clock = std::chrono::steady_clock;

// Between two readings of the journals: what a sampler's ring holds lasts so long at 200,000 columns a
// second.
constexpr std::chrono::milliseconds kReadPeriod{20};
constexpr std::uint32_t kHeadingEvery = 20;

struct TopOptions {
    std::string directory = proto::default_paths().shm_dir;
    std::string instance = "default";
    double interval = 1.0;
    double slow_ms = 1.0;
    std::uint32_t count = 0;  // of lines; 0: without end
    bool once = false;
    bool json = false;

    std::uint64_t slow_ns() const { return static_cast<std::uint64_t>(slow_ms * 1e6); }
};

class Top {
  public:
    explicit Top(const TopOptions& options)
        : options_(options),
          watch_(options.directory, options.instance, shm::JournalReader::From::now),
          account_(options.instance) {
        look();
    }

    // A frame of text on a screen of its own, until somebody leaves.
    void run_on(Screen& screen) {
        bool shows_help = false;
        while (true) {
            const View view = look();
            const auto next = Clock::now() + interval();
            const auto show = [&] {
                const FrameSize size = screen.size();
                screen.show(shows_help ? help_frame(size) : frame_of(view, size, options_.slow_ns()));
            };
            show();
            while (Clock::now() < next) {
                const Screen::Event event = screen.wait(kReadPeriod);
                if (event == Screen::Event::leave) return;
                if (event == Screen::Event::help) shows_help = !shows_help;
                if (event != Screen::Event::none) show();
                read();
            }
        }
    }

    // Of what happens from now on for one interval.
    View look_once() {
        const auto end = Clock::now() + interval();
        while (Clock::now() < end) {
            std::this_thread::sleep_for(std::min<Clock::duration>(kReadPeriod, end - Clock::now()));
            read();
        }
        return look();
    }

  private:
    std::chrono::nanoseconds interval() const {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(
            std::chrono::duration<double>(options_.interval));
    }
    void read() {
        if (const auto part = watch_.read()) account_.add(part.value());
    }
    View look() {
        read();
        View view = account_.look(shm::observe(options_.directory, options_.instance), shm::monotonic_ns());
        view.daemon_stopped = view.daemon_alive && daemon_is_stopped(view.daemon_pid);
        return view;
    }

    TopOptions options_;
    JournalWatch watch_;
    Account account_;
};

// Of one frame.
int exit_status(const View& view) {
    if (view.daemon_alive) return 0;
    return view.fault.empty() ? 3 : 1;
}

void print(const View& view, std::uint64_t slow_ns) {
    if (!view.fault.empty()) {
        std::cerr << view.fault << "\n";
        return;
    }
    for (const FrameLine& line : frame_of(view, {~std::size_t{0}, 0}, slow_ns))
        std::cout << line.text << "\n";
}

int run_top(const TopOptions& options) {
    Top top(options);
    if (options.json) {
        while (true) {
            const View view = top.look_once();
            std::cout << to_json(view) << std::endl;
            if (options.once) return exit_status(view);
            if (!std::cout) return 0;
        }
    }
    if (options.once || ::isatty(STDOUT_FILENO) == 0) {
        const View view = top.look_once();
        print(view, options.slow_ns());
        return exit_status(view);
    }
    Screen screen;
    top.run_on(screen);
    return 0;
}

int run_stat(const TopOptions& options) {
    Top top(options);
    for (std::uint32_t lines = 0;; ++lines) {
        const View view = top.look_once();
        const bool never_seen = lines == 0 && !view.fault.empty();
        if (never_seen) {
            std::cerr << view.fault << "\n";
            return exit_status(view);
        }
        if (lines % kHeadingEvery == 0) std::cout << stat_heading() << "\n";
        std::cout << stat_line(view) << std::endl;
        if (!std::cout) return 0;
        if (lines + 1 == options.count) return exit_status(view);
    }
}

std::shared_ptr<TopOptions> add_target(CLI::App& command, const char* interval) {
    auto options = std::make_shared<TopOptions>();
    command.add_option("-i,--instance", options->instance, "Name of the daemon (its key `instance`)")
        ->capture_default_str();
    command
        .add_option("--shm-dir", options->directory, "Directory of the daemon's segments (its key `shm.dir`)")
        ->capture_default_str();
    command.add_option("--interval", options->interval, interval)
        ->check(command_line::number_between(0.1, 3600.0))
        ->capture_default_str();
    return options;
}

void add_stat(CLI::App& app, int& status) {
    auto* command =
        app.add_subcommand("stat", "Print a line each second: rates, errors, how busy samplers are");
    const auto options = add_target(*command, "Seconds from one line to the next");
    command->add_option("--count", options->count, "Number of lines; 0: no limit")->capture_default_str();
    command->footer(R"(Examples:
  croupier stat
  croupier stat --interval 10 --count 6

The last column is p50/p99 of the time from a step's last logits to its last decision, over five seconds. The exit status is that of `croupier top --once`.)");
    command->callback([options, &status] { status = run_stat(*options); });
}

}  // namespace

void add_top_command(CLI::App& app, int& status) {
    auto* command =
        app.add_subcommand("top", "Show a live view: sessions, steps and their parts, slow columns");
    const auto options = add_target(*command, "Seconds from one frame to the next");
    command->add_option("--slow-ms", options->slow_ms, "Show columns that took at least this long as slow")
        ->check(command_line::number_between(0.0, 1e6))
        ->capture_default_str();
    command->add_flag("--once", options->once,
                      "Print one frame of one interval; the default if the output is not a terminal");
    command->add_flag("--json", options->json, "Print one JSON object for each frame");
    command->footer(R"(Examples:
  croupier top
      q quits, ? explains the columns
  croupier top --once
      one frame as text, for a ticket or a log
  croupier top --json --interval 10 |
      jq -c '.sessions[] | [.name, .tokens_per_second]'

Pairs such as 41us/118us are p50/p99 of the last five seconds: how long a step waited for its logits, was
decided, and waited to be taken by the engine. top only reads, and keeps running while the daemon is gone.
With --once the exit status is 3 if the daemon is dead.)");
    command->callback([options, &status] { status = run_top(*options); });
    add_stat(app, status);
}

}  // namespace croupier::tools
