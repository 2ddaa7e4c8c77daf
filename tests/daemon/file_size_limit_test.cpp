// RLIMIT_FSIZE: what is larger than a process may write is an error of the call, and ends no process.
#include <catch2/catch.hpp>

#include "testing/daemon_process.h"
#include "testing/file_text.h"
#include "testing/small_engine.h"
#include "tests/daemon/limited_croupierd.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

EngineShape large() {
    EngineShape shape;
    shape.vocab = 100000;
    shape.batch = 256;
    return shape;
}

}  // namespace

TEST_CASE("a session larger than the daemon may write to a file is refused by name, and others go on") {
    // In blocks of 512 bytes: 16 MiB.
    const LimitedCroupierd small_files("ulimit -f 32768");
    DaemonProcess daemon(kTwoSamplers, "", small_files.path());
    SmallEngine neighbour(daemon.endpoint(), "small");
    neighbour.admit(4);
    neighbour.step();
    for (int round = 0; round < 2; ++round) {
        const std::string failure = failure_of([&] { SmallEngine(daemon.endpoint(), "large", large()); });
        CHECK_THAT(failure, Contains("no_memory") && Contains("RLIMIT_FSIZE") && Contains("16777216") &&
                                Contains("ulimit -f unlimited") && Contains("LimitFSIZE=infinity"));
        neighbour.steps(2);
    }
    CHECK(daemon.sampler_restarts() == 0);
    neighbour.session().close();
    CHECK(daemon.terminate() == 0);
    CHECK(daemon.files_in_shm() == 0);
}

TEST_CASE("a daemon that may not write even its plane says so and does not start") {
    const Sandbox sandbox;
    sandbox.write_config(kTwoSamplers, "");
    const LimitedCroupierd tiny_files("ulimit -f 64");
    const std::string log = sandbox.directory() + "/log";
    auto process =
        ChildProcess::execute({tiny_files.path(), "--config", sandbox.config_path()}, log, SIGKILL);
    CHECK(process.wait() == 1);
    CHECK_THAT(text_of(log).value_or(""), Contains("event=cannot_start") && Contains("RLIMIT_FSIZE"));
    CHECK(sandbox.files_in_shm() == 0);
}
