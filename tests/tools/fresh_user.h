// A user of this host who starts the programs as from a login shell.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "testing/child_process.h"
#include "testing/daemon_process.h"
#include "testing/file_text.h"

namespace croupier::testing {

// A user that no other test and no other run of this one is.
inline uid_t fresh_user() {
    static uid_t made = 0;
    return 1'000'000 + static_cast<uid_t>(::getpid()) * 16 + made++;
}

// An ordinary user with a runtime directory, as a login gives it.
class User {
  public:
    User() {
        place_ = (std::filesystem::temp_directory_path() / "croupier-user-XXXXXX").string();
        REQUIRE(::mkdtemp(place_.data()) != nullptr);
        REQUIRE(::chmod(place_.c_str(), 0755) == 0);
        REQUIRE(::mkdir(runtime().c_str(), 0700) == 0);
        REQUIRE(::chown(runtime().c_str(), uid(), uid()) == 0);
    }
    ~User() {
        daemon_.reset();
        std::filesystem::remove_all(place_);
        std::filesystem::remove_all(run_dir_in_tmp());
        for (const std::string& folder : shm_dirs()) std::filesystem::remove_all(folder);
    }
    User(const User&) = delete;
    User& operator=(const User&) = delete;

    uid_t uid() const { return uid_; }
    std::string place() const { return place_; }
    std::string runtime() const { return place_ + "/runtime"; }
    std::string run_dir() const { return runtime() + "/croupier"; }
    std::string run_dir_in_tmp() const { return "/tmp/croupier-" + std::to_string(uid_); }
    std::string usual_shm_dir() const { return "/dev/shm/croupier-" + std::to_string(uid_); }
    // The files in /dev/shm of any owner.
    std::vector<std::string> shm_dirs() const {
        std::vector<std::string> found;
        for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
            const std::string path = entry.path().string();
            if (path == usual_shm_dir() || path.starts_with(usual_shm_dir() + "-")) found.push_back(path);
        }
        return found;
    }

    void without_runtime() { has_runtime_ = false; }

    // Runs a program from the folder of croupierd as this user; returns both output streams.
    Ended run(const std::string& program, const std::string& arguments) const {
        const std::string output = place_ + "/output";
        std::filesystem::remove(output);
        auto child = ChildProcess::execute({"/bin/sh", "-c", command(program, arguments)}, output, SIGKILL);
        const int status = child.wait();
        return {status, text_of(output).value_or("")};
    }

    void start(const std::string& arguments = "") {
        std::filesystem::remove(log_path());
        daemon_ =
            ChildProcess::execute({"/bin/sh", "-c", command("croupierd", arguments)}, log_path(), SIGKILL);
    }
    std::string log() const { return text_of(log_path()).value_or(""); }
    bool says(const std::string& text) const { return log().find(text) != std::string::npos; }
    bool becomes_ready() const {
        return eventually([&] { return says("ready: ") || says("cannot start"); }) && says("ready: ");
    }
    int stop() {
        daemon_->send(SIGTERM);
        return daemon_->wait();
    }
    int await_end() { return daemon_->wait(); }
    void kill_daemon() { daemon_->kill_and_reap(); }

  private:
    std::string log_path() const { return place_ + "/log"; }
    std::string command(const std::string& program, const std::string& arguments) const {
        const std::string id = std::to_string(uid_);
        const std::filesystem::path folder = std::filesystem::path(CROUPIERD_PATH).parent_path();
        return "exec env -i " + (has_runtime_ ? "XDG_RUNTIME_DIR=" + runtime() : "") +
               " setpriv --pdeathsig KILL --reuid " + id + " --regid " + id + " --clear-groups " +
               (folder / program).string() + " " + arguments;
    }

    uid_t uid_ = fresh_user();
    std::string place_;
    bool has_runtime_ = true;
    std::optional<ChildProcess> daemon_;
};

}  // namespace croupier::testing
