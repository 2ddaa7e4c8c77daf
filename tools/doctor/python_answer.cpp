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
import importlib.util, json, os, runpy, sys
from importlib import metadata

def version(name):
    try:
        return metadata.version(name) or ""
    except metadata.PackageNotFoundError:
        return ""

def releases(engine):
    # Without an import of the package, which loads its libraries.
    try:
        folder = importlib.util.find_spec("croupier").submodule_search_locations[0]
        told = runpy.run_path(os.path.join(folder, engine, "compat.py"))
        return {"is_supported": bool(told["supported"](version(engine))), "supported": told["names"]()}
    except Exception:
        return {}

answer = {"program": sys.executable, "version": "%d.%d.%d" % sys.version_info[:3], "croupier": version("croupier")}
package = metadata.distribution("croupier") if answer["croupier"] else None
for engine, group in ("vllm", "vllm.general_plugins"), ("sglang", "sglang.srt.plugins"):
    points = package.entry_points if package else []
    answer[engine] = {"release": version(engine)}
    answer[engine]["has_plugin"] = any(point.group == group and point.name == "croupier" for point in points)
    if answer[engine]["release"] and answer[engine]["has_plugin"]:
        answer[engine].update(releases(engine))
for file in (package.files if package else None) or []:
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

EngineAnswer engine_of(const nlohmann::json& told, const char* name) {
    const auto engine = told.value(name, nlohmann::json::object());
    return {engine.value("release", ""), engine.value("has_plugin", false),
            engine.value("is_supported", false), engine.value("supported", "")};
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
    answer.library = told.value("library", "");
    answer.vllm = engine_of(told, "vllm");
    answer.sglang = engine_of(told, "sglang");
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
