#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/config/problems.h"

namespace croupier::config {

namespace {

class TemporaryDirectory {
  public:
    TemporaryDirectory() {
        std::string pattern = (std::filesystem::temp_directory_path() / "croupier-config-XXXXXX").string();
        REQUIRE(::mkdtemp(pattern.data()) != nullptr);
        path_ = pattern;
    }
    ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

    std::string operator/(const std::string& name) const { return (path_ / name).string(); }
    std::string write(const std::string& name, const std::string& text) const {
        std::ofstream(path_ / name) << text;
        return *this / name;
    }
    std::string string() const { return path_.string(); }

  private:
    std::filesystem::path path_;
};

void expect_failure(const std::string& path, const std::string& message) {
    const LoadResult result = load_file(path);
    REQUIRE_FALSE(result.config.has_value());
    REQUIRE(result.problems.size() == 1);
    CHECK(result.problems[0].file == path);
    CHECK_THAT(result.problems[0].message, Catch::Matchers::Contains(message));
}

constexpr uid_t nobody = 65534;

// Root reads everything, so the load runs as a user without rights.
bool refused_for_permission(const std::string& path) {
    const LoadResult result = load_file(path);
    return !result.config && result.problems.size() == 1 &&
           result.problems[0].message.find("permission") != std::string::npos;
}

}  // namespace

TEST_CASE("a file is loaded and its mistakes name it") {
    const TemporaryDirectory directory;
    const std::string good = directory.write("good.yaml", "samplers:\n  count: 3\n");
    REQUIRE(load_file(good).config.has_value());
    CHECK(load_file(good).config->samplers.count == 3);

    const std::string bad = directory.write("bad.yaml", "\nsamplers:\n  count: 300\n");
    const LoadResult result = load_file(bad);
    REQUIRE(result.problems.size() == 1);
    CHECK(to_string(result.problems[0]) ==
          bad + ":3:10: samplers.count: 300 is out of range; allowed: 0..256");
}

TEST_CASE("an empty file is the default configuration") {
    const TemporaryDirectory directory;
    const LoadResult result = load_file(directory.write("empty.yaml", ""));
    REQUIRE(result.config.has_value());
    CHECK(*result.config == default_config());
}

TEST_CASE("keys that a file leaves out have the defaults of the daemon's user") {
    const TemporaryDirectory directory;
    const proto::DefaultPaths paths{"/run/user/7/croupier", "/dev/shm/croupier-7", false};
    const std::string file = directory.write("some.yaml", "shm:\n  dir: /dev/shm/mine\n");
    const LoadResult result = load(file, paths);
    REQUIRE(result.config.has_value());
    CHECK(result.file == file);
    CHECK(result.config->shm.dir == "/dev/shm/mine");
    CHECK(result.config->run_dir == "/run/user/7/croupier");
    CHECK(result.config->control.endpoint == "ipc:///run/user/7/croupier/control.sock");
    CHECK(to_string(result.problem("shm.dir", "is full")) == file + ":2:3: shm.dir: is full");
}

TEST_CASE("without a file a user's own daemon has built-in defaults, whatever the host's has") {
    const LoadResult result = load("", {"/run/user/7/croupier", "/dev/shm/croupier-7", false});
    REQUIRE(result.config.has_value());
    CHECK(result.file.empty());
    CHECK(result.config->run_dir == "/run/user/7/croupier");
    Config host = *result.config;
    host.run_dir = Config().run_dir;
    host.shm = Config().shm;
    host.control = Config().control;
    CHECK(host == Config());
    CHECK(to_string(result.problem("run_dir", "is full")) == "built-in defaults: run_dir: is full");
}

TEST_CASE("what is not a readable file is refused with the reason") {
    const TemporaryDirectory directory;
    expect_failure(directory / "missing.yaml", "does not exist");
    expect_failure(directory.string(), "is a directory");
    expect_failure(directory.write("file", "") + "/below", "Not a directory");
    const std::string fifo = directory / "fifo";
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    expect_failure(fifo, "not a regular file");
    expect_failure(directory.write("large.yaml", std::string(mib + 1, '#')), "larger than 1048576 bytes");
}

TEST_CASE("a file without permission to read is refused with that word") {
    const TemporaryDirectory directory;
    std::filesystem::permissions(directory.string(), std::filesystem::perms{0755});
    const std::string path = directory.write("secret.yaml", "instance: a\n");
    REQUIRE(::chmod(path.c_str(), 0) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        const bool dropped = ::geteuid() != 0 || ::setresuid(nobody, nobody, nobody) == 0;
        ::_exit(dropped && refused_for_permission(path) ? 0 : 1);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace croupier::config
