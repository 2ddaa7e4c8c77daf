#include "tests/daemon/daemon_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace croupier::test {
namespace {

std::string read_text(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

pid_t spawn_croupierd(const std::string& binary, std::vector<std::string> arguments,
                      const std::string& output) {
    arguments.insert(arguments.begin(), binary);
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (auto& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const pid_t test = ::getpid();
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    // A daemon must not outlive a test that is killed.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != test) ::_exit(126);
    const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    ::execv(binary.c_str(), argv.data());
    ::_exit(127);
}

int reap(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

template <typename Visit>
void for_each_file(const std::string& instance, Visit&& visit) {
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
        const std::string name = entry.path().filename().string();
        const std::string prefix = "croupier-" + instance;
        if (!name.starts_with(prefix + ".") && !name.starts_with(prefix + "-")) continue;
        visit(entry.path());
    }
}

}  // namespace

bool eventually(const std::function<bool()>& condition) {
    const auto begin = std::chrono::steady_clock::now();
    while (!condition()) {
        const auto waited = std::chrono::steady_clock::now() - begin;
        if (waited > std::chrono::seconds(20)) return false;
        // Often at first: some states are over within microseconds.
        if (waited < std::chrono::milliseconds(2)) {
            std::this_thread::yield();
        } else {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
    return true;
}

bool is_stopped(pid_t process) {
    return read_text("/proc/" + std::to_string(process) + "/stat").find(") T ") != std::string::npos;
}

Sandbox::Sandbox() {
    static std::atomic<int> made{0};
    directory_ = (std::filesystem::temp_directory_path() / "croupier-test-XXXXXX").string();
    if (::mkdtemp(directory_.data()) == nullptr) throw std::runtime_error("cannot make " + directory_);
    instance_ = "test-" + std::to_string(::getpid()) + "-" + std::to_string(made++);
}

Sandbox::~Sandbox() {
    for_each_file(instance_, [](const std::filesystem::path& path) { std::filesystem::remove(path); });
    std::filesystem::remove_all(directory_);
}

void Sandbox::write_config(const std::string& samplers, const std::string& extra) const {
    const auto lacks = [&](const char* section) { return extra.find(section) == std::string::npos; };
    std::ofstream file(config_path());
    if (lacks("instance:")) file << "instance: " << instance_ << "\n";
    if (lacks("run_dir:")) file << "run_dir: " << directory_ << "\n";
    file << "samplers: " << samplers << "\n";
    if (lacks("control:")) file << "control: {endpoint: \"" << endpoint() << "\"}\n";
    if (lacks("decisions:")) file << "decisions: {endpoint: \"" << decisions_endpoint() << "\"}\n";
    if (lacks("metrics:")) file << "metrics: {listen: \"off\"}\n";
    file << extra << "\n";
}

std::size_t Sandbox::files_in_shm() const {
    std::size_t count = 0;
    for_each_file(instance_, [&](const std::filesystem::path&) { ++count; });
    return count;
}

Ended run_croupierd(const Sandbox& sandbox, const std::vector<std::string>& arguments) {
    const std::string output = sandbox.directory() + "/output";
    std::filesystem::remove(output);
    const int status = reap(spawn_croupierd(CROUPIERD_PATH, arguments, output));
    return {status, read_text(output)};
}

DaemonProcess::DaemonProcess(const std::string& samplers, const std::string& extra, const std::string& binary)
    : binary_(binary.empty() ? CROUPIERD_PATH : binary) {
    write_config(samplers, extra);
    start();
    if (!await_ready()) throw std::runtime_error("croupierd is not ready: " + log());
}

DaemonProcess::~DaemonProcess() {
    if (pid_ != 0) kill_now();
}

void DaemonProcess::start() {
    pid_ = spawn_croupierd(binary_, {"--config", config_path()}, directory() + "/log");
}

bool DaemonProcess::await_ready() const {
    return eventually([&] {
        auto plane = shm::Plane::attach("/dev/shm", instance(), shm::Access::read_only);
        if (!plane || plane.value().header().daemon_pid != pid_) return false;
        const auto& header = plane.value().header();
        if (header.sampler_count == 0) return false;
        for (std::uint32_t index = 0; index < header.sampler_count; ++index) {
            if (header.samplers[index].state.load() != proto::SamplerState::running) return false;
        }
        return says("ready: ");
    });
}

void DaemonProcess::kill_now() {
    if (pid_ == 0) throw std::logic_error("croupierd is not running: nothing to kill");
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
}

void DaemonProcess::restart_after_kill() {
    kill_now();
    start();
    if (!await_ready()) throw std::runtime_error("croupierd did not come back: " + log());
}

int DaemonProcess::await_end() {
    const int status = reap(pid_);
    pid_ = 0;
    return status;
}

int DaemonProcess::terminate() {
    ::kill(pid_, SIGTERM);
    return await_end();
}

void DaemonProcess::signal(int number) const {
    ::kill(pid_, number);
}

std::string DaemonProcess::log() const {
    return read_text(directory() + "/log");
}

shm::Plane DaemonProcess::plane() const {
    return shm::Plane::attach("/dev/shm", instance(), shm::Access::read_only).value();
}

pid_t DaemonProcess::sampler_pid(std::uint32_t index) const {
    return plane().header().samplers[index].pid.load();
}

std::uint32_t DaemonProcess::sampler_restarts() const {
    const auto seen = plane();
    std::uint32_t restarts = 0;
    for (std::uint32_t index = 0; index < seen.header().sampler_count; ++index) {
        restarts += seen.header().samplers[index].restarts.load();
    }
    return restarts;
}

}  // namespace croupier::test
