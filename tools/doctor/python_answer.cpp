#include "tools/doctor/python_answer.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "shm/file.h"

namespace croupier::tools::doctor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kQuestion = R"(
import json, sys
from importlib import metadata

def version(name):
    try:
        return metadata.version(name) or ""
    except metadata.PackageNotFoundError:
        return ""

answer = {"program": sys.executable, "version": "%d.%d.%d" % sys.version_info[:3], "has_plugin": False, "library": ""}
for name in "croupier", "vllm", "sglang":
    answer[name] = version(name)
if answer["croupier"]:
    package = metadata.distribution("croupier")
    answer["has_plugin"] = any(
        point.group == "vllm.general_plugins" and point.name == "croupier" for point in package.entry_points
    )
    for file in package.files or []:
        if file.name.startswith("libcroupier.so"):
            answer["library"] = str(file.locate())
print(json.dumps(answer))
)";

struct Pipe {
    shm::FileDescriptor read;
    shm::FileDescriptor write;
};

Pipe open_pipe() {
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
    return {shm::FileDescriptor(ends[0]), shm::FileDescriptor(ends[1])};
}

// 0: it is started; else why not.
int start(const std::string& program, const Pipe& pipe, pid_t& pid) {
    std::string name = program;
    std::string flag = "-c";
    std::string question = kQuestion;
    const std::array<char*, 4> argv = {name.data(), flag.data(), question.data(), nullptr};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, pipe.write.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    // With -c Python looks for modules where it is started: there somebody else may have put a json.py.
    ::posix_spawn_file_actions_addchdir_np(&actions, "/");
    // Of a group of its own: what it starts ends with it.
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    const int error = ::posix_spawnp(&pid, program.c_str(), &actions, &attributes, argv.data(), environ);
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
    return error;
}

std::string read_all(const shm::FileDescriptor& from, Clock::time_point deadline) {
    std::string text;
    std::array<char, 1024> buffer{};
    while (text.size() < 65536) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
        pollfd ready{from.get(), POLLIN, 0};
        if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) <= 0) break;
        const auto length = ::read(from.get(), buffer.data(), buffer.size());
        if (length <= 0) break;
        text.append(buffer.data(), static_cast<std::size_t>(length));
    }
    return text;
}

// `late`: how long it was waited for in vain; 0: it has ended.
void read_answer(const std::string& text, std::chrono::milliseconds late, PythonAnswer& answer) {
    const auto told = nlohmann::json::parse(text, nullptr, false);
    if (!told.is_object()) {
        answer.state = PythonState::failed;
        answer.error = late.count() == 0 ? "it did not answer as Python 3.8 or later would"
                                         : "it did not answer within " + std::to_string(late.count()) + " ms";
        return;
    }
    answer.state = PythonState::answers;
    answer.program = told.value("program", answer.program);
    answer.version = told.value("version", "");
    answer.croupier = told.value("croupier", "");
    answer.vllm = told.value("vllm", "");
    answer.sglang = told.value("sglang", "");
    answer.has_plugin = told.value("has_plugin", false);
    answer.library = told.value("library", "");
}

}  // namespace

PythonAnswer ask_python(const std::string& program, std::chrono::milliseconds patience) {
    PythonAnswer answer;
    answer.program =
        program.find('/') == std::string::npos ? program : std::filesystem::absolute(program).string();
    const auto deadline = Clock::now() + patience;
    Pipe pipe = open_pipe();
    pid_t pid = 0;
    const int error = pipe.read.valid() ? start(answer.program, pipe, pid) : errno;
    if (error != 0) {
        answer.state = error == ENOENT ? PythonState::absent : PythonState::failed;
        answer.error = std::strerror(error);
        return answer;
    }
    pipe.write = shm::FileDescriptor();
    const std::string text = read_all(pipe.read, deadline);
    const auto late = Clock::now() < deadline ? std::chrono::milliseconds(0) : patience;
    // It has nothing more to say; one that hangs must not hold up the others.
    ::kill(-pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    try {
        read_answer(text, late, answer);
    } catch (const nlohmann::json::exception& fault) {
        answer.state = PythonState::failed;
        answer.error = fault.what();
    }
    return answer;
}

}  // namespace croupier::tools::doctor
