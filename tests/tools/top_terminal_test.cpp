// `croupier top` on a terminal: it stays over the daemon's death, and leaves the terminal as it was.
#include <signal.h>

#include <catch2/catch.hpp>
#include <string>

#include "testing/daemon_process.h"
#include "testing/on_terminal.h"

using namespace croupier;
using namespace croupier::testing;

namespace {

OnTerminal top_of(const DaemonProcess& daemon) {
    return OnTerminal(
        {"top", "-i", daemon.instance(), "--shm-dir", daemon.shm_directory(), "--interval", "0.1"});
}

constexpr const char* kSecondScreen = "\033[?1049h";
constexpr const char* kFirstScreen = "\033[?1049l";

}  // namespace

TEST_CASE("croupier top goes on when its daemon is gone and another one is there") {
    DaemonProcess daemon;
    OnTerminal top = top_of(daemon);
    REQUIRE(top.shows(kSecondScreen));
    REQUIRE(top.shows("daemon " + std::to_string(daemon.pid())));
    REQUIRE(top.shows("no sessions"));
    CHECK_FALSE(top.reads_lines());
    daemon.kill_now();
    REQUIRE(top.shows("is GONE for"));
    daemon.start();
    REQUIRE(top.shows("daemon " + std::to_string(daemon.pid())));
    // Narrower than any line.
    top.resize(12, 4);
    REQUIRE(top.shows("\033[7mcroupier to~\033[0m"));
    top.resize(80, 24);
    REQUIRE(top.shows("q quit  ? help"));
    top.type("?");
    REQUIRE(top.shows("croupier top: help"));
    top.type("?");
    REQUIRE(top.shows("no sessions"));
    top.type("xq");
    REQUIRE(top.shows(kFirstScreen));
    CHECK(top.wait() == 0);
    CHECK(top.reads_lines());
}

TEST_CASE("croupier top gives the terminal back when a signal ends or stops it") {
    const DaemonProcess daemon;
    OnTerminal top = top_of(daemon);
    REQUIRE(top.shows("no sessions"));
    top.send(SIGTSTP);
    REQUIRE(top.shows(kFirstScreen));
    REQUIRE(top.stops());
    CHECK(top.reads_lines());
    top.send(SIGCONT);
    REQUIRE(top.shows(kSecondScreen));
    REQUIRE(top.shows("no sessions"));
    CHECK_FALSE(top.reads_lines());
    top.type("\x03");  // Ctrl-C
    REQUIRE(top.shows(kFirstScreen));
    CHECK(top.wait() == 0);
    CHECK(top.reads_lines());
}
