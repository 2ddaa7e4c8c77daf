#include "tools/top/command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "config/config.h"
#include "host/host_view.h"
#include "shm/clock.h"
#include "tools/journal_watch.h"
#include "tools/number_between.h"
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

struct TopOptions {
    std::string directory = config::Shm().dir;
    std::string instance = "default";
    double interval = 1.0;
    bool once = false;
    bool json = false;
};

bool daemon_is_stopped(std::int32_t pid) {
    host::HostView process;
    process.process = std::to_string(pid);
    // In another PID namespace the number is another process's.
    return process.read_of_process("comm") == "croupierd" && host::is_stopped(process);
}

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
        while (true) {
            const View view = look();
            const auto next = Clock::now() + interval();
            screen.show(frame_of(view, screen.size()));
            while (Clock::now() < next) {
                const Screen::Event event = screen.wait(kReadPeriod);
                if (event == Screen::Event::leave) return;
                if (event == Screen::Event::redraw) screen.show(frame_of(view, screen.size()));
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

void print(const View& view) {
    if (!view.fault.empty()) {
        std::cerr << view.fault << "\nis croupierd running, and its instance called '" << view.instance
                  << "'?\n";
        return;
    }
    for (const FrameLine& line : frame_of(view, {~std::size_t{0}, 0})) std::cout << line.text << "\n";
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
        print(view);
        return exit_status(view);
    }
    Screen screen;
    top.run_on(screen);
    return 0;
}

}  // namespace

void add_top_command(CLI::App& app, int& status) {
    auto* command = app.add_subcommand("top", "Live view: sessions, steps and their parts, slowest columns");
    const auto options = std::make_shared<TopOptions>();
    command->add_option("-i,--instance", options->instance, "The daemon's `instance`")->capture_default_str();
    command->add_option("--shm-dir", options->directory, "The daemon's `shm.dir`")->capture_default_str();
    command->add_option("--interval", options->interval, "Seconds from one frame to the next")
        ->check(number_between(0.1, 3600.0))
        ->capture_default_str();
    command->add_flag("--once", options->once, "One frame, of one interval, and end; so it is on a pipe");
    command->add_flag("--json", options->json, "One JSON object a frame, until it is ended");
    command->footer(R"(
Examples:
  croupier top                      q leaves
  croupier top --once               one frame as text, for a ticket or a log
  croupier top --json --interval 10 | jq -c '.sessions[] | [.name, .tokens_per_second]'
Pairs such as 41us/118us are the median and the 99th percentile of the last five seconds: of a step, how
long it waited for its logits, was decided, and waited to be taken by the engine. It only reads, and goes on
when the daemon is gone and back. With --once the exit status is 3 where the daemon is dead.)");
    command->callback([options, &status] { status = run_top(*options); });
}

}  // namespace croupier::tools
