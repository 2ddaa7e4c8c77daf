#include "tools/own_daemon.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "shm/plane.h"

extern char** environ;

namespace croupier::tools {
namespace {

bool every_sampler_runs(const std::string& instance) {
    auto plane = shm::Plane::attach("/dev/shm", instance, shm::Access::read_only);
    if (!plane || plane.value().header().sampler_count == 0) return false;
    const auto& header = plane.value().header();
    for (std::uint32_t index = 0; index < header.sampler_count; ++index) {
        if (header.samplers[index].state.load(std::memory_order_acquire) != proto::SamplerState::running) return false;
    }
    return true;
}

}  // namespace

std::string beside_this_program(const std::string& name) {
    return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
}

OwnDaemon::OwnDaemon(const OwnDaemonOptions& options) {
    std::string pattern = (std::filesystem::temp_directory_path() / "croupier-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a directory like " + pattern);
    directory_ = pattern;
    write_config(options);
    const std::string binary = options.binary.empty() ? beside_this_program("croupierd") : options.binary;
    std::string config = directory_ + "/croupierd.yaml";
    std::string flag = "--config";
    std::string name = binary;
    std::vector<char*> argv = {name.data(), flag.data(), config.data(), nullptr};
    const int error = ::posix_spawn(&pid_, binary.c_str(), nullptr, nullptr, argv.data(), environ);
    if (error != 0) throw std::system_error(error, std::generic_category(), "cannot start " + binary);
    await_ready(options.instance);
}

void OwnDaemon::write_config(const OwnDaemonOptions& options) const {
    std::ofstream(directory_ + "/croupierd.yaml")
        << "instance: " << options.instance << "\nrun_dir: " << directory_
        << "\nsamplers:\n  count: " << options.samplers << "\n  wait: " << options.wait << "\n  cores: \""
        << options.cores << "\"\ncontrol:\n  endpoint: " << endpoint() << "\ndecisions:\n  endpoint: ipc://"
        << directory_ << "/decisions.sock\nmetrics:\n  listen: \"off\"\nlog:\n  level: warn\n";
}

void OwnDaemon::await_ready(const std::string& instance) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!every_sampler_runs(instance)) {
        int status = 0;
        if (::waitpid(pid_, &status, WNOHANG) == pid_) throw std::runtime_error("croupierd ended at its start; its words stand above");
        if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("croupierd was not ready within 20 s");
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
}

OwnDaemon::~OwnDaemon() {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
}

}  // namespace croupier::tools
