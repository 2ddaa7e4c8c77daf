#include "command_line/progress.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace croupier::command_line {
namespace {

constexpr std::chrono::milliseconds kSilent{2000};
// On a terminal the line is overwritten; in a log each report is a new line.
constexpr std::chrono::milliseconds kOnTerminal{200};
constexpr std::chrono::milliseconds kInLog{5000};

}  // namespace

Progress::Progress(std::string shown, std::uint64_t units)
    : shown_(std::move(shown)),
      units_(units),
      terminal_(::isatty(STDERR_FILENO) != 0),
      next_(Clock::now() + kSilent) {}

Progress::~Progress() {
    if (printed_ && terminal_) std::fputs("\r\033[K", stderr);
}

void Progress::begin(const std::string& what, std::uint64_t all) {
    what_ = what;
    all_ = all;
    done_ = 0;
}

void Progress::advance(std::uint64_t units) {
    done_ += units;
    const auto now = Clock::now();
    if (now >= next_) print(now);
}

void Progress::print(Clock::time_point now) {
    std::string text = fmt::format("{}: {} {}", what_, shown_of(done_), shown_);
    if (all_ > 0) {
        text += fmt::format(" of {}, {:.0f}%", shown_of(all_),
                            100.0 * static_cast<double>(done_) / static_cast<double>(all_));
    }
    std::fputs((terminal_ ? "\r\033[K" + text : text + "\n").c_str(), stderr);
    std::fflush(stderr);
    printed_ = true;
    next_ = now + (terminal_ ? kOnTerminal : kInLog);
}

}  // namespace croupier::command_line
