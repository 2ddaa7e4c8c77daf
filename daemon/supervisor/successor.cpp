#include "daemon/supervisor/successor.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <utility>
#include <vector>

#include "config/document.h"
#include "config/write.h"
#include "daemon/observation/http_server.h"
#include "event_log/event_log.h"
#include "shm/build_note.h"
#include "shm/file.h"

namespace croupier::daemon {

using event_log::Event;
using shm::Errc;
using shm::FileDescriptor;

namespace {

// It only reads a few files; the sessions wait meanwhile.
constexpr std::chrono::seconds kPatience{2};

// A configuration, or its mistakes, is far shorter.
constexpr std::size_t kLongestAnswer = 1 << 16;

using Clock = std::chrono::steady_clock;

struct Answer {
    std::string text;  // of its standard output; the other stream goes where this daemon's goes
    int status = -1;   // of its exit; -1: it did not end in time, or by a signal
};

struct Pipe {
    FileDescriptor read;
    FileDescriptor write;
};

shm::Result<Pipe> open_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return shm::system_failure("cannot open", "a pipe", errno);
    return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

shm::Result<pid_t> spawn(const std::string& program, std::vector<std::string> arguments,
                         const FileDescriptor& output) {
    std::string name = program;
    std::vector<char*> argv = {name.data()};
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, output.get(), STDOUT_FILENO);
    pid_t pid = 0;
    const int error = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0) return shm::system_failure("cannot run", program, error);
    return pid;
}

bool is_ready_by(Clock::time_point deadline, const FileDescriptor& file) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd ready{file.get(), POLLIN, 0};
    return left.count() > 0 && ::poll(&ready, 1, static_cast<int>(left.count())) > 0;
}

// All that it prints until it closes its output.
std::string read_all(const FileDescriptor& from, Clock::time_point deadline) {
    std::string text;
    std::array<char, 4096> buffer{};
    while (text.size() < kLongestAnswer && is_ready_by(deadline, from)) {
        const auto length = ::read(from.get(), buffer.data(), buffer.size());
        if (length <= 0) break;
        text.append(buffer.data(), static_cast<std::size_t>(length));
    }
    return text;
}

int await_exit(pid_t pid, Clock::time_point deadline) {
    const FileDescriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (handle.valid()) is_ready_by(deadline, handle);
    // One that hangs must not hold up the stop; one that has ended keeps its status.
    ::kill(pid, SIGKILL);
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

shm::Result<Answer> ask(const std::string& program, std::vector<std::string> arguments) {
    const auto deadline = Clock::now() + kPatience;
    CROUPIER_TRY_VALUE(pipe, open_pipe());
    CROUPIER_TRY_VALUE(pid, spawn(program, std::move(arguments), pipe.write));
    pipe.write = FileDescriptor();
    Answer answer;
    answer.text = read_all(pipe.read, deadline);
    answer.status = await_exit(pid, deadline);
    return answer;
}

// Of a printed configuration; empty where the key is not in it.
std::string value_of(const config::TreeNode& root, const std::string& key) {
    const auto dot = key.find('.');
    for (const config::Entry& entry : root.entries) {
        if (entry.key != key.substr(0, dot)) continue;
        return dot == std::string::npos ? entry.value.scalar.text
                                        : value_of(entry.value, key.substr(dot + 1));
    }
    return "";
}

std::vector<std::string> lines_of(const std::string& text) {
    std::istringstream stream(text);
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
    return lines;
}

struct NextStart {
    std::vector<std::string> problems;  // a line each; empty: it starts
    std::string config;                 // with which it starts, as YAML
};

NextStart next_start(const std::string& program, const std::string& named) {
    std::vector<std::string> arguments = {"--check-start"};
    if (!named.empty()) arguments.insert(arguments.end(), {"--config", named});
    const auto answer = ask(program, std::move(arguments));
    if (!answer) return {.problems = {answer.error().message}, .config = ""};
    const auto& [text, status] = answer.value();
    if (status == 0) return {.problems = {}, .config = text};
    std::vector<std::string> problems = lines_of(text);
    if (problems.empty()) {
        problems.push_back(program + " --check-start " +
                           (status < 0 ? "did not end in time" : "exited with " + std::to_string(status)));
    }
    return {.problems = std::move(problems), .config = ""};
}

// Which key of the next daemon's configuration says that it would look for the sessions elsewhere, or could
// not give them to who has them; empty: none.
std::string moved_key(const std::string& now, const std::string& next) {
    const auto ours = config::parse_document(now);
    const auto theirs = config::parse_document(next);
    for (const char* const key : {"instance", "run_dir", "shm.dir", "shm.mode", "shm.group"}) {
        if (value_of(ours.root, key) != value_of(theirs.root, key)) return key;
    }
    return "";
}

// The same file's layout_versions().
shm::Result<std::string> layout_versions_of(const std::string& program) {
    CROUPIER_TRY_VALUE(answer, ask(program, {"--layout-versions"}));
    const std::string line = answer.text.substr(0, answer.text.find('\n'));
    if (!line.empty()) return line;
    return shm::fail(Errc::wrong_version, program + " does not tell its layouts (--layout-versions)");
}

// This daemon's own port is free once it is gone, and from the default address the next one moves away.
shm::Result<bool> can_serve_metrics(const std::string& next_config, const std::string& own_address) {
    const auto port_of = [](const std::string& address) { return address.substr(address.rfind(':') + 1); };
    const std::string next = value_of(config::parse_document(next_config).root, "metrics.listen");
    const bool is_ours = !own_address.empty() && port_of(next) == port_of(own_address);
    if (is_ours || next == "off" || next == config::Metrics().listen) return true;
    return can_serve_at(next);
}

Handover refuse(const std::string& named, const std::vector<std::string>& problems) {
    for (const auto& line : problems) event_log::write(Event::config_problem, {{"file", named}}, "{}", line);
    event_log::write(Event::handover_refused, {{"problems", problems.size()}},
                     "no handover (SIGUSR1): the next daemon could not start with {}; this one serves on. "
                     "Correct what the lines above name and try again",
                     named.empty() ? "its configuration" : named);
    ::sd_notify(0, "STATUS=serving; it did not hand over, because the next daemon could not start");
    return Handover::refused;
}

}  // namespace

std::string layout_versions() {
    return std::string(shm::build_note().layouts());
}

std::string own_program() {
    std::error_code failure;
    return std::filesystem::read_symlink("/proc/self/exe", failure).string();
}

Handover ask_successor(const Predecessor& from, const config::Config& config) {
    const NextStart start = next_start(from.program, from.named);
    if (!start.problems.empty()) return refuse(from.named, start.problems);
    if (const std::string key = moved_key(config::to_yaml(config), start.config); !key.empty()) {
        event_log::write(Event::handover_refused, {{"key", key}},
                         "no handover (SIGUSR1): {} has changed, so the next daemon would not find the "
                         "sessions; they end now",
                         key);
        return Handover::sessions_end;
    }
    if (const auto serves = can_serve_metrics(start.config, from.metrics_address); !serves)
        return refuse(from.named, {serves.error().message});
    const std::string ours = layout_versions();
    const auto next = layout_versions_of(from.program);
    if (next && next.value() == ours) return Handover::possible;
    event_log::write(
        Event::handover_refused, {{"layouts", ours}},
        "no handover (SIGUSR1): {}; this daemon speaks {}, so its sessions end now",
        next ? "the next daemon, " + from.program + ", speaks " + next.value() : next.error().message, ours);
    return Handover::sessions_end;
}

}  // namespace croupier::daemon
