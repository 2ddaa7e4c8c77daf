#include "testing/daemon_process.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <utility>

#include "shm/file.h"
#include "testing/file_text.h"
#include "testing/own_daemon.h"

namespace croupier::testing {
namespace {

// A daemon must not outlive a test that is killed.
ChildProcess spawn_croupierd(const std::string& program, std::vector<std::string> arguments,
                             const std::string& output) {
    arguments.insert(arguments.begin(), program);
    return ChildProcess::execute(arguments, output, SIGKILL);
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
    return text_of("/proc/" + std::to_string(process) + "/stat").value_or("").find(") T ") !=
           std::string::npos;
}

Sandbox::Sandbox() {
    static std::atomic<int> made{0};
    directory_ = (std::filesystem::temp_directory_path() / "croupier-test-XXXXXX").string();
    if (::mkdtemp(directory_.data()) == nullptr) throw std::runtime_error("cannot make " + directory_);
    instance_ = "test-" + std::to_string(::getpid()) + "-" + std::to_string(made++);
}

Sandbox::~Sandbox() {
    std::filesystem::remove_all(shm_directory());
    std::filesystem::remove_all(directory_);
}

void Sandbox::write_config(const std::string& samplers, const std::string& extra) const {
    const auto lacks = [&](const char* section) { return extra.find(section) == std::string::npos; };
    std::ofstream file(config_path());
    if (lacks("instance:")) file << "instance: " << instance_ << "\n";
    if (lacks("run_dir:")) file << "run_dir: " << directory_ << "\n";
    file << "samplers: " << samplers << "\n";
    if (lacks("shm:")) file << "shm: {dir: " << shm_directory() << "}\n";
    if (lacks("control:")) file << "control: {endpoint: \"" << endpoint() << "\"}\n";
    if (lacks("metrics:")) file << "metrics: {listen: \"off\"}\n";
    std::string own = extra;
    for (auto at = own.find("@shm@"); at != std::string::npos; at = own.find("@shm@"))
        own.replace(at, 5, shm_directory());
    file << own << "\n";
}

std::string Sandbox::shm_directory() const {
    return "/dev/shm/croupier-" + instance_;
}

std::size_t Sandbox::files_in_shm() const {
    std::error_code none;
    const std::filesystem::directory_iterator files(shm_directory(), none);
    return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

Ended run_croupierd(const Sandbox& sandbox, const std::vector<std::string>& arguments) {
    const std::string output = sandbox.directory() + "/output";
    std::filesystem::remove(output);
    const int status = spawn_croupierd(CROUPIERD_PATH, arguments, output).wait();
    return {status, text_of(output).value_or("")};
}

DaemonProcess::DaemonProcess(const std::string& samplers, const std::string& extra, std::string program)
    : program_(std::move(program)) {
    write_config(samplers, extra);
    start();
    if (!await_ready()) throw std::runtime_error("croupierd is not ready: " + log());
}

void DaemonProcess::start() {
    process_ = spawn_croupierd(program_, {"--config", config_path()}, directory() + "/log");
}

bool DaemonProcess::await_ready() const {
    return eventually(
        [&] { return every_sampler_runs(shm_directory(), instance(), process_.pid()) && says("ready: "); });
}

void DaemonProcess::kill_now() {
    if (!process_.running()) throw std::logic_error("croupierd is not running: nothing to kill");
    process_.kill_and_reap();
}

void DaemonProcess::restart_after_kill() {
    kill_now();
    start();
    if (!await_ready()) throw std::runtime_error("croupierd did not come back: " + log());
}

int DaemonProcess::await_end() {
    return process_.wait();
}

int DaemonProcess::terminate() {
    process_.send(SIGTERM);
    return await_end();
}

void DaemonProcess::signal(int number) const {
    process_.send(number);
}

void DaemonProcess::await_housekeeping() const {
    const auto seen = plane();
    const auto& looks = seen.header().housekeepings;
    // The first that ends may have begun before.
    const std::uint64_t enough = looks.load() + 2;
    if (!eventually([&] { return looks.load() >= enough; })) throw std::runtime_error("no housekeeping");
}

void DaemonProcess::await_idle_samplers() const {
    const auto seen = plane();
    const auto& header = seen.header();
    for (std::uint32_t index = 0; index < header.sampler_count; ++index) {
        const auto& sampler = header.samplers[index];
        std::uint64_t columns = sampler.columns.load();
        // A beat may come from a look that had begun before: only the second one ends a look of its own.
        for (int quiet_beats = 0; quiet_beats < 2;) {
            const std::uint64_t beat = sampler.heartbeat_ns.load();
            if (!eventually([&] { return sampler.heartbeat_ns.load() != beat; }))
                throw std::runtime_error("sampler " + std::to_string(index) + " sends no heartbeat");
            const std::uint64_t decided = sampler.columns.load();
            quiet_beats = decided == columns ? quiet_beats + 1 : 0;
            columns = decided;
        }
    }
}

std::string DaemonProcess::log() const {
    return text_of(directory() + "/log").value_or("");
}

shm::Plane DaemonProcess::plane() const {
    return shm::Plane::attach(shm_directory(), instance(), shm::Access::read_only).value();
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

}  // namespace croupier::testing
