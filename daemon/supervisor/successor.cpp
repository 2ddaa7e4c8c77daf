#include "daemon/supervisor/successor.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>

#include "shm/build_note.h"
#include "shm/file.h"

namespace croupier::daemon {

using shm::Errc;
using shm::FileDescriptor;

namespace {

// It only prints a line; the sessions wait meanwhile.
constexpr std::chrono::seconds kPatience{2};

struct Pipe {
    FileDescriptor read;
    FileDescriptor write;
};

shm::Result<Pipe> open_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return shm::system_failure("cannot open", "a pipe", errno);
    return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

shm::Result<pid_t> spawn(const std::string& program, const FileDescriptor& output) {
    std::string name = program;
    std::string flag = "--layout-versions";
    const std::array<char*, 3> argv = {name.data(), flag.data(), nullptr};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, output.get(), STDOUT_FILENO);
    pid_t pid = 0;
    const int error = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0) return shm::system_failure("cannot run", program, error);
    return pid;
}

// All that it prints until it closes its output, or until the patience is over.
std::string read_all(const FileDescriptor& from) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    std::string text;
    std::array<char, 256> buffer{};
    while (text.size() < 4096) {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        pollfd ready{from.get(), POLLIN, 0};
        if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) <= 0) break;
        const auto length = ::read(from.get(), buffer.data(), buffer.size());
        if (length <= 0) break;
        text.append(buffer.data(), static_cast<std::size_t>(length));
    }
    return text.substr(0, text.find('\n'));
}

}  // namespace

std::string layout_versions() {
    return std::string(shm::build_note().layouts());
}

std::string moved_key(const config::Config& now, const config::Config& next) {
    if (next.instance != now.instance) return "instance";
    if (next.run_dir != now.run_dir) return "run_dir";
    if (next.shm.dir != now.shm.dir) return "shm.dir";
    if (next.shm.mode != now.shm.mode) return "shm.mode";
    return next.shm.group != now.shm.group ? "shm.group" : "";
}

std::string own_program() {
    std::error_code failure;
    return std::filesystem::read_symlink("/proc/self/exe", failure).string();
}

shm::Result<std::string> layout_versions_of(const std::string& program) {
    CROUPIER_TRY_VALUE(pipe, open_pipe());
    CROUPIER_TRY_VALUE(pid, spawn(program, pipe.write));
    pipe.write = FileDescriptor();
    const std::string line = read_all(pipe.read);
    // It has nothing more to say; one that hangs must not hold up the stop.
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    if (!line.empty()) return line;
    return shm::fail(Errc::wrong_version, program + " does not tell its layouts (--layout-versions)");
}

}  // namespace croupier::daemon
