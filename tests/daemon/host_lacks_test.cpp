// A configuration that is valid and asks for what this host does not have.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "host/mounts.h"
#include "testing/daemon_process.h"
#include "testing/file_text.h"
#include "testing/small_engine.h"
#include "tests/shm/second_user.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

// No host has these.
constexpr const char* kNoCores = "{count: 1, cores: \"0,1000-1001\"}";

Ended check(const Sandbox& sandbox, const std::string& samplers, const std::string& extra) {
    sandbox.write_config(samplers, extra);
    return run_croupierd(sandbox, {"--check-config", "--config", sandbox.config_path()});
}

// Not of a pair: whether a text is a key depends on its digits alone.
constexpr const char* kKey = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7";

// A configuration with CURVE keys, and their files.
class CurveFiles {
  public:
    CurveFiles() {
        std::filesystem::permissions(files_.directory(), std::filesystem::perms(0711));
        std::ofstream(secret()) << kKey << "\n";
        std::ofstream(clients()) << kKey << "\n";
        std::filesystem::permissions(secret(), std::filesystem::perms(0400));
        files_.write_config(kTwoSamplers, "control:\n  endpoint: " + files_.endpoint() +
                                              "\n  curve: {secret_key_file: " + secret() +
                                              ", authorized_keys_file: " + clients() + "}\n");
        std::filesystem::permissions(files_.config_path(), std::filesystem::perms(0644));
    }
    std::string secret() const { return files_.directory() + "/secret"; }
    std::string clients() const { return files_.directory() + "/clients"; }
    // `before` stands before the program in the shell's command.
    Ended check(const std::string& before = "") const {
        const std::string output = files_.directory() + "/output";
        const std::string command = before + CROUPIERD_PATH " --check-config --config " +
                                    files_.config_path() + " >" + output + " 2>&1";
        const int status = std::system(command.c_str());
        return {WEXITSTATUS(status), text_of(output).value_or("")};
    }

  private:
    Sandbox files_;
};

}  // namespace

TEST_CASE("a check of the configuration refuses a group that this host does not have, with line and key") {
    const Sandbox sandbox;
    const Ended ended = check(sandbox, kTwoSamplers, "shm:\n  dir: @shm@\n  group: nosuchgroup\n");
    CHECK(ended.status == 2);
    CHECK_THAT(ended.output,
               Contains("croupierd.yaml:8:3: shm.group: this host has no group 'nosuchgroup'") &&
                   Contains("1 problem;"));
    CHECK(check(sandbox, kTwoSamplers, "shm: {dir: \"@shm@\", group: root}").status == 0);
}

TEST_CASE(
    "a check of the configuration warns of cores that this host does not have, and calls the file valid") {
    const Sandbox sandbox;
    const Ended ended = check(sandbox, kNoCores, "");
    CHECK(ended.status == 0);
    CHECK_THAT(ended.output, Contains("warning: ") && Contains("samplers.cores") && Contains("1000-1001") &&
                                 Contains("is valid"));
    CHECK_THAT(check(sandbox, "{count: 1, cores: \"0\"}", "").output, !Contains("warning"));
}

TEST_CASE("a check of the configuration refuses CURVE keys with which no daemon starts") {
    const CurveFiles files;
    const auto refused = [&] {
        const Ended ended = files.check();
        CHECK(ended.status == 2);
        CHECK_THAT(ended.output, Contains("control.curve"));
        return ended.output;
    };
    CHECK(files.check().status == 0);
    SECTION("the file is missing") {
        std::filesystem::remove(files.secret());
        CHECK_THAT(refused(), Contains(files.secret() + ": No such file"));
    }
    SECTION("there is no key in it") {
        std::ofstream(files.secret()) << "secret\n";
        CHECK_THAT(refused(), Contains(files.secret() + ":1"));
    }
    SECTION("a public key stands before the secret one") {
        std::ofstream(files.secret()) << kKey << " " << kKey << "\n";
        CHECK_THAT(refused(), Contains(files.secret() + ":1") && Contains("one a line"));
    }
    SECTION("it holds both keys") {
        std::ofstream(files.secret()) << kKey << "\n" << kKey << "\n";
        CHECK_THAT(refused(), Contains("holds 2 keys") && Contains("secret key alone"));
    }
}

TEST_CASE("a check of the configuration warns of a secret CURVE key that other users may read") {
    const CurveFiles files;
    CHECK_THAT(files.check().output, !Contains("warning"));
    const bool by_all = GENERATE(true, false);
    if (!by_all && !shm::can_change_user()) return;
    std::filesystem::permissions(files.secret(), std::filesystem::perms(by_all ? 0444 : 0440));
    if (!by_all) REQUIRE(::chown(files.secret().c_str(), 0, 4200) == 0);
    const Ended ended = files.check();
    CHECK(ended.status == 0);
    CHECK_THAT(ended.output, Contains("warning: ") && Contains("control.curve.secret_key_file") &&
                                 Contains("other users may read") && Contains(files.secret()));
}

TEST_CASE("a check of the configuration warns of a list of CURVE keys to which other users may add") {
    const CurveFiles files;
    const auto output_with = [&](int mode) {
        std::filesystem::permissions(files.clients(), std::filesystem::perms(mode));
        return files.check().output;
    };
    CHECK_THAT(output_with(0644), Contains("is valid") && !Contains("warning"));
    CHECK_THAT(output_with(0646), Contains("is valid") && Contains("warning: ") &&
                                      Contains("control.curve.authorized_keys_file") &&
                                      Contains("other users may add keys to " + files.clients()));
    if (!shm::can_change_user()) return;
    REQUIRE(::chown(files.clients().c_str(), 0, 4200) == 0);
    CHECK_THAT(output_with(0664), Contains("other users may add keys to " + files.clients()));
    CHECK_THAT(output_with(0644), !Contains("warning"));
}

TEST_CASE("a secret CURVE key that the daemon's group may read, or root's, is no cause for a warning") {
    const CurveFiles files;
    std::filesystem::permissions(files.secret(), std::filesystem::perms(0440));
    CHECK_THAT(files.check().output, Contains("is valid") && !Contains("warning"));
    if (!shm::can_change_user()) return;
    // As Kubernetes mounts a secret for a pod with an fsGroup.
    REQUIRE(::chown(files.secret().c_str(), 0, 4200) == 0);
    const std::string daemon = "setpriv --reuid 65534 --regid 65534 --groups ";
    CHECK_THAT(files.check(daemon + "4200 ").output, Contains("is valid") && !Contains("warning"));
    REQUIRE(::chown(files.secret().c_str(), 65534, 0) == 0);
    CHECK_THAT(files.check(daemon + "4200 ").output, Contains("is valid") && !Contains("warning"));
}

TEST_CASE("a check of the configuration warns of CURVE keys that this user may not read") {
    if (!shm::can_change_user()) return;
    const CurveFiles files;
    const Ended ended = files.check("setpriv --reuid 65534 --regid 65534 --clear-groups ");
    CHECK(ended.status == 0);
    CHECK_THAT(ended.output,
               Contains("warning: ") && Contains("control.curve") && Contains("ermission denied"));
}

TEST_CASE("a check of the configuration warns of memory that this host does not have") {
    const Sandbox sandbox;
    CHECK_THAT(check(sandbox, kTwoSamplers, "").output, !Contains("warning"));
    CHECK_THAT(check(sandbox, kTwoSamplers, "shm: {dir: \"@shm@\", node: 1023}").output,
               Contains("warning: ") && Contains("shm.node: this host has no NUMA node 1023"));
    CHECK_THAT(check(sandbox, kTwoSamplers, "shm: {dir: /proc/croupier}").output,
               Contains("shm.dir: /proc/croupier is on /proc (proc), which is not in memory"));
    const bool has_them = host::mount_of({}, "/dev/shm").value().has_huge_pages();
    const Ended required = check(sandbox, kTwoSamplers, "shm: {dir: \"@shm@\", hugepages: require}");
    CHECK(required.status == 0);
    CHECK((required.output.find("shm.hugepages: /dev/shm has no huge pages") == std::string::npos) ==
          has_them);
}

TEST_CASE("a daemon that starts with cores that are not there warns of them, and serves") {
    const DaemonProcess daemon(kNoCores);
    CHECK(daemon.says("event=host_lacks"));
    CHECK_THAT(daemon.log(), Contains("samplers.cores") && Contains("1000-1001"));
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(2);
    engine.steps(2);
}
