#include "tools/hotset/progress.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <cstdio>

namespace croupier::tools {
namespace {

constexpr std::chrono::milliseconds kSilent{2000};
// A terminal's line is written over; a log gets a line more each time.
constexpr std::chrono::milliseconds kOnTerminal{200};
constexpr std::chrono::milliseconds kInLog{5000};

double megabytes(std::uint64_t bytes) {
    return static_cast<double>(bytes) / 1e6;
}

}  // namespace

Progress::Progress() : terminal_(::isatty(STDERR_FILENO) != 0), next_(Clock::now() + kSilent) {}

Progress::~Progress() {
    if (said_ && terminal_) std::fputs("\r\033[K", stderr);
}

void Progress::begin(const std::string& name, std::uint64_t bytes) {
    name_ = name;
    all_ = bytes;
    read_ = 0;
}

void Progress::read(std::uint64_t bytes) {
    read_ += bytes;
    const auto now = Clock::now();
    if (now >= next_) say(now);
}

void Progress::say(Clock::time_point now) {
    std::string text = fmt::format("counting {}: {:.0f} MB", name_, megabytes(read_));
    if (all_ > 0) {
        text +=
            fmt::format(" of {:.0f}, {:.0f}%", megabytes(all_), 100.0 * megabytes(read_) / megabytes(all_));
    }
    std::fputs((terminal_ ? "\r\033[K" + text : text + "\n").c_str(), stderr);
    std::fflush(stderr);
    said_ = true;
    next_ = now + (terminal_ ? kOnTerminal : kInLog);
}

}  // namespace croupier::tools
