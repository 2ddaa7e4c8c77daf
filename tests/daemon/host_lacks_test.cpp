// A configuration that is valid and asks for what this host does not have.
#include <catch2/catch.hpp>
#include <fstream>

#include "testing/daemon_process.h"
#include "testing/small_engine.h"

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

TEST_CASE("a check of the configuration warns of CURVE keys that cannot be read from here") {
    const Sandbox sandbox;
    const Ended ended = check(sandbox, kTwoSamplers,
                              "control:\n  endpoint: ipc://" + sandbox.directory() +
                                  "/control.sock\n  curve: {secret_key_file: /none/a, authorized_keys_file: "
                                  "/none/b}\n");
    CHECK(ended.status == 0);
    CHECK_THAT(ended.output, Contains("warning: ") && Contains("control.curve") && Contains("/none/a"));
}

TEST_CASE("a daemon that starts with cores that are not there warns of them, and serves") {
    const DaemonProcess daemon(kNoCores);
    CHECK(daemon.says("event=host_lacks"));
    CHECK_THAT(daemon.log(), Contains("samplers.cores") && Contains("1000-1001"));
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(2);
    engine.steps(2);
}
