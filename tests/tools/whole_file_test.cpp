// Files that are replaced atomically, also if a signal ends the process while it writes.
#include "tools/whole_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <optional>

#include "testing/child_process.h"
#include "testing/daemon_process.h"
#include "testing/workplace.h"

using namespace croupier::testing;
using croupier::tools::WholeFile;

namespace {

// A child that stops itself when half of the file is written, and would then finish it.
ChildProcess half_written(const std::string& path) {
    return ChildProcess::start([path] {
        // The parent of the tests may ignore some signals.
        for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_DFL);
        WholeFile file(path);
        file.delete_on_signals({SIGINT, SIGTERM, SIGHUP});
        file.stream() << "half" << std::flush;
        ::raise(SIGSTOP);
        file.stream() << " and half";
        file.commit();
        return 0;
    });
}

}  // namespace

TEST_CASE("a process ended by a signal deletes its incomplete file and keeps the old one") {
    const Workplace place;
    const bool is_there = GENERATE(false, true);
    if (is_there) place.write("t.json", "yesterday's");
    ChildProcess child = half_written(place.path() / "t.json");
    REQUIRE(child.wait_until_stopped());
    REQUIRE(place.bytes_of("t.json.new") == "half");
    const int signal = GENERATE(SIGINT, SIGTERM, SIGHUP);
    child.send(signal);
    child.send(SIGCONT);
    std::optional<ChildEnd> end;
    REQUIRE(eventually([&] { return (end = child.poll()).has_value(); }));
    CHECK(end->signal == signal);
    CHECK_FALSE(std::filesystem::exists(place.path() / "t.json.new"));
    CHECK(std::filesystem::exists(place.path() / "t.json") == is_there);
    CHECK(place.bytes_of("t.json") == (is_there ? "yesterday's" : ""));
}

TEST_CASE("ignored signals stay ignored, and a signal after the commit deletes nothing") {
    const Workplace place;
    const std::string path = place.path() / "t.json";
    ChildProcess ignores = ChildProcess::start([path] {
        ::signal(SIGHUP, SIG_IGN);
        WholeFile file(path);
        file.delete_on_signals({SIGHUP});
        file.stream() << "whole";
        ::raise(SIGHUP);
        file.commit();
        return 7;
    });
    CHECK(ignores.wait() == 7);
    CHECK(place.bytes_of("t.json") == "whole");
    ChildProcess late = ChildProcess::start([path] {
        ::signal(SIGINT, SIG_DFL);
        WholeFile file(path);
        file.delete_on_signals({SIGINT});
        file.stream() << "newer";
        file.commit();
        std::ofstream(path + ".new") << "somebody else's";
        ::raise(SIGINT);
        return 0;
    });
    CHECK(late.wait() == -1);
    CHECK(place.bytes_of("t.json") == "newer");
    CHECK(place.bytes_of("t.json.new") == "somebody else's");
}

TEST_CASE("an existing link, FIFO or file with the temporary name is left alone") {
    const Workplace place;
    const std::string path = place.path() / "t.json";
    const std::string taken = path + ".new";
    place.write("victim", "precious");
    SECTION("a link") {
        std::filesystem::create_symlink(place.path() / "victim", taken);
    }
    SECTION("a FIFO") {
        REQUIRE(::mkfifo(taken.c_str(), 0600) == 0);
    }
    SECTION("a file") {
        place.write("t.json.new", "somebody's");
    }
    for (const bool is_finished : {false, true}) {
        WholeFile file(path);
        file.stream() << "all";
        if (is_finished) file.commit();
    }
    CHECK(place.bytes_of("t.json") == "all");
    CHECK(place.bytes_of("victim") == "precious");
    CHECK(std::filesystem::symlink_status(taken).type() != std::filesystem::file_type::not_found);
    CHECK_FALSE(std::filesystem::exists(path + ".new1"));
}
