// Who may do what on a host: the doctor names what is missing, and no remedy of its opens a door.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "testing/daemon_process.h"
#include "tests/shm/second_user.h"
#include "tests/tools/doctor_asker.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

namespace fs = std::filesystem;

// A group of which nobody is a member, and that opens nothing.
constexpr gid_t kEngines = 40125;
constexpr const char* kAsNobody = "setpriv --reuid 65534 --regid 65534 --clear-groups ";

// None gives a user root's group, another owner for a folder that is there, or everybody a way in.
void expect_safe_remedies(const DoctorAnswer& told) {
    for (const auto& finding : told.answer["findings"]) {
        const std::string remedy = finding["remedy"];
        INFO(finding.dump(2));
        for (const char* door : {"usermod -aG root", "chown", "ipc_mode", "shm.mode", "0666", "0777", "sudo"})
            CHECK_THAT(remedy, !Contains(door));
    }
}

}  // namespace

TEST_CASE("doctor: a group that is not there, or has not the daemon's user, is named") {
    const Sandbox sandbox;
    const Workplace place;
    sandbox.write_config(kOneSampler, "shm: {dir: \"@shm@\", group: no-such-group}");
    const auto absent = ask_doctor(place, config_of(sandbox));
    CHECK(absent.status == 2);
    CHECK(absent.level("user.daemon") == "broken");
    CHECK_THAT(absent.what("user.daemon"), Contains("wrong group") && Contains("no-such-group"));
    CHECK_THAT(absent.remedy("user.daemon"), Contains("groupadd no-such-group"));
    sandbox.write_config(kOneSampler, "shm: {dir: \"@shm@\", group: root}");
    const auto stranger = ask_doctor(place, config_of(sandbox) + " --user nobody");
    CHECK(stranger.level("user.daemon") == "broken");
    CHECK_THAT(stranger.remedy("user.daemon"), Contains("group made for engines") && !Contains("usermod"));
    sandbox.write_config(kOneSampler, "shm: {dir: \"@shm@\", group: \"" + std::to_string(kEngines) + "\"}");
    CHECK_THAT(ask_doctor(place, config_of(sandbox) + " --user nobody").remedy("user.daemon"),
               Contains("usermod -aG " + std::to_string(kEngines) + " nobody"));
}

TEST_CASE("doctor: a user who may not connect is offered a daemon of its own, and nothing that opens more") {
    if (!shm::can_change_user()) return;
    const DaemonProcess daemon(kOneSampler);
    REQUIRE(daemon.await_ready());
    const Workplace place;
    fs::permissions(place.path(), fs::perms(0755));
    fs::permissions(daemon.directory(), fs::perms(0755));
    fs::permissions(daemon.config_path(), fs::perms(0644));
    const auto told = ask_doctor(place, config_of(daemon) + kNotThisMachine, kAsNobody);
    CHECK(told.status == 2);
    CHECK(told.level("daemon.answers") == "broken");
    CHECK_THAT(told.what("daemon.answers"), Contains("no permission"));
    CHECK(told.level("user.engine") == "broken");
    CHECK(told.level("files.segments") == "skipped");
    const auto asked_for = ask_doctor(place, config_of(daemon) + kNotThisMachine + " --engine-user nobody");
    CHECK(asked_for.level("daemon.answers") == "fine");
    CHECK(asked_for.level("user.engine") == "broken");
    CHECK_THAT(asked_for.remedy("user.engine"), Contains("`croupierd` as nobody"));
    fs::permissions(daemon.directory(), fs::perms(0700));
    const auto closed = ask_doctor(place, config_of(daemon) + " --engine-user nobody");
    CHECK_THAT(closed.what("user.engine"), Contains("may not enter " + daemon.directory()));
    for (const auto& each : {told, asked_for, closed}) expect_safe_remedies(each);
}

TEST_CASE("doctor: an engine's user is told to join a group that was made for engines") {
    if (!shm::can_change_user()) return;
    const DaemonProcess daemon(kOneSampler,
                               "shm: {dir: \"@shm@\", group: \"" + std::to_string(kEngines) + "\"}");
    const Workplace place;
    fs::permissions(daemon.directory(), fs::perms(0711));
    const auto told = ask_doctor(place, config_of(daemon) + kNotThisMachine + " --engine-user nobody");
    CHECK(told.level("user.engine") == "broken");
    CHECK_THAT(told.remedy("user.engine"), Contains("usermod -aG " + std::to_string(kEngines) + " nobody"));
}

TEST_CASE("doctor: no remedy takes a folder from the daemon that uses it") {
    if (!shm::can_change_user()) return;
    const DaemonProcess daemon(kOneSampler);
    REQUIRE(daemon.await_ready());
    const Workplace place;
    fs::permissions(place.path(), fs::perms(0755));
    fs::permissions(daemon.directory(), fs::perms(0755));
    fs::permissions(daemon.config_path(), fs::perms(0644));
    const std::string question = config_of(daemon) + kNotThisMachine;
    const auto told = ask_doctor(place, question, kAsNobody);
    // Its socket's owner, as the kernel does not say who a peer is that admits nobody.
    CHECK(told.finding("user.daemon")["facts"]["uid"] == 0);
    CHECK(told.level("files.directory") == "fine");
    expect_safe_remedies(told);
    const auto for_another = ask_doctor(place, question + " --user nobody");
    CHECK(for_another.level("files.directory") == "broken");
    CHECK(for_another.level("files.sockets") == "broken");
    expect_safe_remedies(for_another);
}

TEST_CASE(
    "doctor: an ordinary user without a configuration and without a daemon is told that the host is fit") {
    if (!shm::can_change_user()) return;
    const Workplace place;
    fs::permissions(place.path(), fs::perms(0755));
    const std::string user = std::to_string(2'000'000 + ::getpid());
    const auto told = ask_doctor(
        place, kNotThisMachine,
        "env -u XDG_RUNTIME_DIR setpriv --reuid " + user + " --regid " + user + " --clear-groups ");
    INFO(told.answer.dump(2));
    // The host's daemon may run, and admit nobody.
    if (told.finding("daemon.answers")["facts"]["endpoint"] == "ipc:///run/croupier/control.sock") return;
    CHECK(told.status == 0);
    CHECK_THAT(told.what("config.file"), Contains("this user's own daemon"));
    CHECK_THAT(told.what("files.directory"), Contains("/dev/shm/croupier-" + user));
    CHECK_THAT(told.what("files.sockets"), Contains("/tmp/croupier-" + user));
}

TEST_CASE("doctor: a daemon's user who may not make its folders is told so") {
    if (!shm::can_change_user()) return;
    const Sandbox sandbox;
    sandbox.write_config(kOneSampler, "run_dir: /etc/no-such-folder");
    const Workplace place;
    const auto told = ask_doctor(place, config_of(sandbox) + " --user nobody");
    CHECK(told.status == 2);
    CHECK(told.level("files.sockets") == "broken");
    CHECK_THAT(told.what("files.sockets"), Contains("no permission") && Contains("nobody"));
    CHECK_THAT(told.remedy("files.sockets"), Contains("install -d -o nobody"));
}
