// Lines leave without waiting, whoever reads them and whoever else writes there.
#include "event_log/standard_error.h"

#include <fcntl.h>
#include <spdlog/details/log_msg.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

using namespace croupier;

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void write_lines(int to, int lines) {
    ::dup2(to, STDERR_FILENO);
    event_log::StandardError sink;
    // Two of them do not fit a page of the pipe.
    const std::string line(3000, 'x');
    for (int i = 0; i < lines; ++i) sink.log({"", spdlog::level::info, line});
    ::_exit(0);
}

// Its exit status; -1: it had not ended by then, and was killed.
int status_by(pid_t pid, Clock::time_point deadline) {
    int status = 0;
    while (::waitpid(pid, &status, WNOHANG) == 0) {
        if (Clock::now() > deadline) {
            ::kill(pid, SIGKILL);
            ::waitpid(pid, &status, 0);
            return -1;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return status;
}

}  // namespace

TEST_CASE("processes that share a standard error go on when nobody reads it any more") {
    std::array<int, 2> pipe{};
    REQUIRE(::pipe2(pipe.data(), O_CLOEXEC) == 0);
    std::vector<pid_t> writers;
    for (int i = 0; i < 4; ++i) {
        writers.push_back(::fork());
        if (writers.back() == 0) write_lines(pipe[1], 200'000);
    }
    ::close(pipe[1]);
    // The pipe fills up again and again, with all of them at its last page. A slow reader may see it end:
    // they drop the lines that it has no room for.
    std::array<char, 4096> page{};
    int pages = 0;
    while (pages < 20'000 && ::read(pipe[0], page.data(), page.size()) > 0) ++pages;
    CHECK(pages > 0);
    const auto deadline = Clock::now() + std::chrono::seconds(20);
    for (const pid_t writer : writers) CHECK(status_by(writer, deadline) == 0);
    ::close(pipe[0]);
}
