#include "tools/sim/sim_daemon.h"

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

namespace croupier::tools::sim {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kStopPatience{20};
constexpr std::size_t kLogTail = 2000;

std::string find_executable(const SimOptions& options) {
    const fs::path path = options.croupierd.empty()
                              ? fs::read_symlink("/proc/self/exe").parent_path() / "croupierd"
                              : fs::path(options.croupierd);
    if (::access(path.c_str(), X_OK) == 0) return path.string();
    throw std::runtime_error("there is no daemon to start at " + path.string() +
                             "; name it with --croupierd, or use a running one with --endpoint");
}

std::string make_directory() {
    std::string path = (fs::temp_directory_path() / "croupier-sim-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) {
        throw std::system_error(errno, std::generic_category(), "cannot make a directory like " + path);
    }
    return path;
}

}  // namespace

SimDaemon::SimDaemon(const SimOptions& options, std::string instance)
    : instance_(std::move(instance)),
      executable_(find_executable(options)),
      directory_(make_directory()),
      keep_(options.keep) {
    write_config(options);
}

SimDaemon::~SimDaemon() {
    if (keep_) return;
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
}

std::string SimDaemon::endpoint() const {
    return "ipc://" + directory_ + "/control.sock";
}

void SimDaemon::write_config(const SimOptions& options) const {
    std::ofstream file(directory_ + "/croupierd.yaml");
    file << "instance: " << instance_ << "\nrun_dir: " << directory_ << "\nshm:\n  dir: " << options.shm_dir
         << "\nsamplers:\n  count: " << options.samplers
         << "\n  threads_per_sampler: " << options.threads_per_sampler << "\n  wait: "
         << options.wait
         // The imitated GPUs compute on the same cores: the kernel balances them better than a fixed place.
         << "\n  pin: false\n  restart_backoff_ms: 1"
         << "\nsessions:\n  max_batch: " << options.batch
         << "\n  max_sequences: " << options.batch * options.steps_in_flight()
         << "\n  max_sequence_tokens: " << options.prompt_max + options.output_max + 2
         << "\n  reattach_grace_ms: 60000\n  drain_timeout_ms: 1000"
         << "\ncontrol:\n  endpoint: " << endpoint() << "\ndecisions:\n  endpoint: ipc://" << directory_
         << "/decisions.sock\nmetrics:\n  listen: \"off\"\nlog:\n  level: info\n";
    if (!file.flush()) throw std::runtime_error("cannot write " + directory_ + "/croupierd.yaml");
}

void SimDaemon::start() {
    process_ = ChildProcess::execute({executable_, "--config", directory_ + "/croupierd.yaml"},
                                     directory_ + "/croupierd.log");
}

void SimDaemon::kill_and_restart() {
    process_.send(SIGKILL);
    process_.wait();
    start();
}

bool SimDaemon::stop() {
    process_.send(SIGTERM);
    const auto deadline = std::chrono::steady_clock::now() + kStopPatience;
    while (process_.running()) {
        if (const auto end = process_.poll()) return end->signal == 0 && end->exit_code == 0;
        if (std::chrono::steady_clock::now() > deadline) {
            process_.send(SIGKILL);
            process_.wait();
            return false;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
}

std::string SimDaemon::end_of_log() const {
    std::ifstream file(directory_ + "/croupierd.log");
    std::stringstream content;
    content << file.rdbuf();
    const std::string text = content.str();
    return text.size() <= kLogTail ? text : text.substr(text.size() - kLogTail);
}

std::size_t files_of_instance(const std::string& directory, const std::string& instance) {
    const std::string prefix = "croupier-" + instance;
    std::size_t count = 0;
    for (const auto& file : fs::directory_iterator(directory)) {
        const std::string name = file.path().filename().string();
        // What follows must end the instance's name: "sim-12" is not "sim-123".
        const bool ours = name.starts_with(prefix) && name.size() > prefix.size() &&
                          (name[prefix.size()] == '-' || name[prefix.size()] == '.');
        count += ours ? 1 : 0;
    }
    return count;
}

}  // namespace croupier::tools::sim
