// SIGUSR1, as `systemctl restart` sends it: the sessions outlive the daemon if the next one can read them.
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "shm/snapshot.h"
#include "testing/daemon_process.h"
#include "testing/small_engine.h"
#include "tests/daemon/loopback.h"
#include "tests/daemon/served_engine.h"
#include "tests/shm/second_user.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

// A program of its own, so that a test can put another file in its place.
class OwnProgram {
  public:
    OwnProgram() { std::filesystem::copy_file(CROUPIERD_PATH, path()); }
    std::string path() const { return files_.directory() + "/croupierd"; }
    // As a package's upgrade does: a new file takes the name, who runs the old one keeps it.
    void replace_by(const std::string& script) const {
        const std::string fresh = files_.directory() + "/fresh";
        std::ofstream(fresh) << "#!/bin/sh\n" << script << "\n";
        std::filesystem::permissions(fresh, std::filesystem::perms::owner_all);
        std::filesystem::rename(fresh, path());
    }
    void remove() const { std::filesystem::remove(path()); }

  private:
    Sandbox files_;
};

}  // namespace

TEST_CASE_METHOD(EngineServedEachWay,
                 "a daemon that is restarted hands over its sessions, and no engine notices") {
    engine.step();
    for (int round = 0; round < 4; ++round) {
        INFO("round " << round << ", " << way());
        engine.submit();
        // A step that waits for its logits goes over, and one that is decided and not taken.
        if (round % 2 == 0) engine.write();
        daemon.signal(SIGUSR1);
        REQUIRE(daemon.await_end() == 0);
        REQUIRE(std::filesystem::exists(engine.segment_path()));
        if (round % 2 == 1) engine.write();
        daemon.start();
        engine.collect();
        REQUIRE(daemon.await_ready());
    }
    CHECK(daemon.says("handed over (SIGUSR1): 1 session waits for the next daemon"));
    CHECK(daemon.says("session engine"));
    engine.step();
    CHECK(daemon.terminate() == 0);
    CHECK(daemon.files_in_shm() == 0);
}

TEST_CASE("a daemon whose successor could not read its sessions says so and drains") {
    const auto [script, told] =
        GENERATE(table<std::string, std::string>({{"echo segment 999, messages 1", "speaks segment 999"},
                                                  {"echo no such flag >&2", "does not tell its layouts"}}));
    const OwnProgram program;
    DaemonProcess daemon(kTwoSamplers, "", program.path());
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(8);
    engine.step();
    engine.submit();
    program.replace_by("[ \"$1\" = --layout-versions ] || exec " CROUPIERD_PATH " \"$@\"\n" + script);
    daemon.signal(SIGUSR1);
    REQUIRE(eventually([&] { return daemon.says("draining (SIGUSR1)"); }));
    CHECK_THAT(daemon.log(), Contains("no handover") && Contains(told));
    engine.write();
    engine.collect();
    CHECK(daemon.await_end() == 0);
    CHECK(daemon.files_in_shm() == 0);
}

TEST_CASE_METHOD(ServedEngine,
                 "a daemon whose successor would look for its sessions elsewhere says so and drains") {
    const std::string changed = GENERATE("instance", "shm.dir", "shm.mode", "shm.group");
    engine.submit();
    const Sandbox elsewhere;
    daemon.write_config(kTwoSamplers, changed == "instance" ? "instance: other"
                                      : changed == "shm.dir"
                                          ? "shm: {dir: \"" + elsewhere.shm_directory() + "\"}"
                                      : changed == "shm.mode" ? "shm: {dir: \"@shm@\", mode: \"0600\"}"
                                                              : "shm: {dir: \"@shm@\", group: \"4200\"}");
    daemon.signal(SIGUSR1);
    REQUIRE(eventually([&] { return daemon.says("draining (SIGUSR1)"); }));
    CHECK(daemon.says("no handover (SIGUSR1): " + changed + " has changed"));
    engine.write();
    engine.collect();
    CHECK(daemon.await_end() == 0);
    CHECK(daemon.files_in_shm() == 0);
}

TEST_CASE_METHOD(ServedEngine,
                 "a daemon whose successor could not start with the file says so and serves on") {
    engine.submit();
    daemon.write_config("{count: many}", "");
    daemon.signal(SIGUSR1);
    REQUIRE(eventually([&] { return daemon.says("event=handover_refused"); }));
    CHECK_THAT(daemon.log(), Contains("event=config_problem") && Contains("samplers.count") &&
                                 Contains("the next daemon could not start with " + daemon.config_path()));
    engine.write();
    engine.collect();
    engine.steps(2);
    // Nor where the host lacks what it names.
    daemon.write_config(kTwoSamplers, "shm: {dir: \"@shm@\", group: nosuchgroup}");
    daemon.signal(SIGUSR1);
    REQUIRE(eventually([&] { return daemon.says("this host has no group 'nosuchgroup'"); }));
    engine.step();
    const HeldPort held;
    daemon.write_config(kTwoSamplers, metrics_at(held));
    daemon.signal(SIGUSR1);
    REQUIRE(eventually([&] { return daemon.says("another program listens there"); }));
    engine.step();
    daemon.write_config(kTwoSamplers, "");
    daemon.signal(SIGUSR1);
    CHECK(daemon.await_end() == 0);
    CHECK(daemon.says("handed over (SIGUSR1)"));
    daemon.start();
    engine.step();
}

TEST_CASE_METHOD(ServedEngine, "a daemon that cannot start leaves word that sessions wait for one") {
    daemon.signal(SIGUSR1);
    REQUIRE(daemon.await_end() == 0);
    const HeldPort held;
    daemon.write_config(kTwoSamplers, metrics_at(held));
    daemon.start();
    REQUIRE(daemon.await_end() == 1);
    const auto seen = shm::observe(daemon.shm_directory(), daemon.instance());
    REQUIRE(seen);
    CHECK_FALSE(seen.value().daemon_alive);
    CHECK(seen.value().sessions.size() == 1);
    daemon.write_config(kTwoSamplers, "");
    daemon.start();
    engine.step();
}

TEST_CASE("a daemon hands over with a configuration that only its successor can read") {
    const OwnProgram program;
    DaemonProcess daemon(kTwoSamplers, "", program.path());
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(8);
    engine.submit();
    std::ofstream(daemon.config_path(), std::ios::app) << "future: {key: 1}\n";
    const auto next = [&](const std::string& flag) {
        const std::string known = daemon.directory() + "/known.yaml";
        return "sed '/^future:/d' " + daemon.config_path() + " >" + known + "\nexec " CROUPIERD_PATH " " +
               flag + " --config " + known;
    };
    program.replace_by("case $1 in --check-start | --layout-versions) " + next("$1") + ";; esac\n" +
                       next(""));
    daemon.signal(SIGUSR1);
    REQUIRE(daemon.await_end() == 0);
    CHECK(daemon.says("handed over (SIGUSR1)"));
    daemon.start();
    engine.write();
    engine.collect();
}

TEST_CASE("a daemon whose successor does not know a key of the file, or is not there, serves on") {
    const OwnProgram program;
    DaemonProcess daemon(kTwoSamplers, "", program.path());
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(8);
    std::string told = "croupierd.yaml:3: samplers.wait: is unknown";
    SECTION("it refuses a key") {
        program.replace_by("[ $1 = --check-start ] && echo \"" + told + "\"; exit 2");
    }
    SECTION("it fails without a word") {
        program.replace_by("exit 3");
        told = "--check-start exited with 3";
    }
    SECTION("it hangs") {
        program.replace_by("exec sleep 1000");
        told = "--check-start did not end in time";
    }
    SECTION("it is not there") {
        program.remove();
        told = "cannot run " + program.path();
    }
    daemon.signal(SIGUSR1);
    REQUIRE(eventually([&] { return daemon.says("event=handover_refused"); }));
    CHECK_THAT(daemon.log(), Contains("event=config_problem") && Contains(told) &&
                                 Contains("the next daemon could not start with " + daemon.config_path()));
    engine.steps(2);
}

TEST_CASE("a daemon whose successor may not read its CURVE keys serves on") {
    if (!shm::can_change_user()) return;
    const OwnProgram program;
    DaemonProcess daemon(kTwoSamplers, "", program.path());
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(8);
    const std::string secret = daemon.directory() + "/secret";
    std::ofstream(secret) << "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7\n";
    std::filesystem::permissions(secret, std::filesystem::perms(0400));
    daemon.write_config(kTwoSamplers, "control: {endpoint: \"" + daemon.endpoint() +
                                          "\", curve: {secret_key_file: " + secret +
                                          ", authorized_keys_file: " + secret + "}}");
    std::filesystem::permissions(daemon.directory(), std::filesystem::perms(0711));
    std::filesystem::permissions(daemon.config_path(), std::filesystem::perms(0644));
    program.replace_by("exec setpriv --reuid 65534 --regid 65534 --clear-groups " CROUPIERD_PATH " \"$@\"");
    daemon.signal(SIGUSR1);
    REQUIRE(eventually([&] { return daemon.says("event=handover_refused"); }));
    CHECK_THAT(daemon.log(), Contains("control.curve") && Contains("ermission denied"));
    engine.steps(2);
}

TEST_CASE_METHOD(ServedEngine, "a daemon that is told both to hand over and to stop stops") {
    const int stop = GENERATE(SIGTERM, SIGINT);
    engine.step();
    daemon.signal(SIGSTOP);
    REQUIRE(eventually([&] { return is_stopped(daemon.pid()); }));
    daemon.signal(SIGUSR1);
    daemon.signal(stop);
    daemon.signal(SIGCONT);
    CHECK(daemon.await_end() == 0);
    CHECK(daemon.says(stop == SIGTERM ? "draining (SIGTERM)" : "draining (SIGINT)"));
    CHECK(daemon.files_in_shm() == 0);
}

TEST_CASE("a daemon that has ended leaves its instance and its port to the next one") {
    DaemonProcess daemon(kTwoSamplers,
                         "metrics: {listen: \"127.0.0.1:" + std::to_string(free_port()) + "\"}");
    for (int round = 0; round < 3; ++round) {
        CHECK(daemon.terminate() == 0);
        daemon.start();
        REQUIRE(daemon.await_ready());
    }
}
