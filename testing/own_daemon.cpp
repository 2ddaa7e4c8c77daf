#include "testing/own_daemon.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "proto/default_paths.h"
#include "shm/plane.h"
#include "testing/file_text.h"

namespace croupier::testing {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kStartPatience{20};
constexpr std::chrono::seconds kStopPatience{20};
constexpr std::size_t kLogTail = 2000;

std::string find_executable(const std::string& wanted) {
    const fs::path path =
        wanted.empty() ? fs::read_symlink("/proc/self/exe").parent_path() / "croupierd" : fs::path(wanted);
    if (::access(path.c_str(), X_OK) == 0) return path.string();
    throw std::runtime_error("cannot find the daemon at " + path.string() +
                             "; give its path with --croupierd, or a running daemon with --endpoint");
}

std::string make_directory() {
    std::string path = (fs::temp_directory_path() / "croupier-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) {
        throw std::system_error(errno, std::generic_category(), "cannot create a directory like " + path);
    }
    return path;
}

// Of a line of the log, `... message="cannot \"open\" it" ...`: the text without its quotes and escapes.
std::string message_of(const std::string& line) {
    const std::string key = " message=\"";
    const auto begin = line.find(key);
    std::string text;
    if (begin == std::string::npos) return text;
    for (auto at = begin + key.size(); at < line.size() && line[at] != '"'; ++at) {
        if (line[at] == '\\') ++at;
        if (at < line.size()) text += line[at];
    }
    return text;
}

}  // namespace

bool every_sampler_runs(const std::string& shm_dir, const std::string& instance, pid_t daemon) {
    auto plane = shm::Plane::attach(shm_dir, instance, shm::Access::read_only);
    if (!plane || plane.value().header().daemon_pid != daemon) return false;
    const auto& header = plane.value().header();
    for (std::uint32_t index = 0; index < header.sampler_count; ++index) {
        if (header.samplers[index].state.load(std::memory_order_acquire) != proto::SamplerState::running)
            return false;
    }
    return header.sampler_count > 0;
}

std::string private_shm_dir() {
    return proto::own_paths().shm_dir;
}

OwnDaemon::OwnDaemon(OwnDaemonOptions options) : options_(std::move(options)), directory_(make_directory()) {
    options_.executable = find_executable(options_.executable);
    write_config();
}

OwnDaemon::~OwnDaemon() {
    if (options_.keep) return;
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
}

std::string OwnDaemon::endpoint() const {
    return "ipc://" + directory_ + "/control.sock";
}

void OwnDaemon::write_config() const {
    std::ofstream file(directory_ + "/croupierd.yaml");
    file << "instance: " << options_.instance << "\nrun_dir: " << directory_
         << "\nshm:\n  dir: " << options_.shm_dir << "\n"
         << options_.sections << "control:\n  endpoint: " << endpoint() << "\nmetrics:\n  listen: \"off\"\n";
    if (!file.flush()) throw std::runtime_error("cannot write " + directory_ + "/croupierd.yaml");
}

void OwnDaemon::await_ready() {
    const auto deadline = std::chrono::steady_clock::now() + kStartPatience;
    while (!every_sampler_runs(options_.shm_dir, options_.instance, process_.pid())) {
        if (const auto end = process_.poll())
            throw std::runtime_error("croupierd failed to start: " + last_error(*end));
        if (std::chrono::steady_clock::now() > deadline)
            throw std::runtime_error("croupierd was not ready in time:\n" + end_of_log());
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
}

void OwnDaemon::start() {
    process_ = ChildProcess::execute({options_.executable, "--config", directory_ + "/croupierd.yaml"},
                                     directory_ + "/croupierd.log", SIGTERM);
}

void OwnDaemon::kill_and_restart() {
    process_.kill_and_reap();
    start();
}

bool OwnDaemon::stop() {
    process_.send(SIGTERM);
    const auto deadline = std::chrono::steady_clock::now() + kStopPatience;
    while (process_.running()) {
        if (const auto end = process_.poll()) return end->signal == 0 && end->exit_code == 0;
        if (std::chrono::steady_clock::now() > deadline) {
            process_.kill_and_reap();
            return false;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
}

std::string OwnDaemon::end_of_log() const {
    const std::string text = text_of(directory_ + "/croupierd.log").value_or("");
    return text.size() <= kLogTail ? text : text.substr(text.size() - kLogTail);
}

std::string OwnDaemon::last_error(const ChildEnd& end) const {
    std::istringstream lines(text_of(directory_ + "/croupierd.log").value_or(""));
    std::string found;
    for (std::string line; std::getline(lines, line);) {
        const bool is_error = line.find(" level=error ") != std::string::npos ||
                              line.find(" level=critical ") != std::string::npos;
        if (is_error) found = message_of(line);
    }
    if (!found.empty()) return found;
    return "exit code " + std::to_string(end.exit_code) + ", signal " + std::to_string(end.signal) +
           "; end of its log:\n" + end_of_log();
}

std::size_t files_of_instance(const std::string& directory, const std::string& instance) {
    const std::string prefix = "croupier-" + instance;
    std::size_t count = 0;
    // The folder is missing if the daemon could not start or has removed it.
    std::error_code none;
    for (const auto& file : fs::directory_iterator(directory, none)) {
        const std::string name = file.path().filename().string();
        // The instance's name must end here: "sim-12" is not "sim-123".
        const bool ours = name.starts_with(prefix) && name.size() > prefix.size() &&
                          (name[prefix.size()] == '-' || name[prefix.size()] == '.');
        count += ours ? 1 : 0;
    }
    return count;
}

}  // namespace croupier::testing
