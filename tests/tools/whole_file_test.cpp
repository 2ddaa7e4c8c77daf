// Files that are written whole or not at all, also when their process is told to end in the middle.
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

// A child that stops itself when half of the file is on the disk, and would finish it.
ChildProcess half_written(const std::string& path) {
    return ChildProcess::start([path] {
        // Whatever runs the tests may ignore some.
        for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_DFL);
        WholeFile file(path);
        file.goes_with({SIGINT, SIGTERM, SIGHUP});
        file.stream() << "half" << std::flush;
        ::raise(SIGSTOP);
        file.stream() << " and half";
        file.put_in_place();
        return 0;
    });
}

}  // namespace

TEST_CASE("a process that a signal ends leaves no half of a file, and the file that was there") {
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

TEST_CASE("a signal that is ignored stays so, and one after the end takes nothing with it") {
    const Workplace place;
    const std::string path = place.path() / "t.json";
    ChildProcess ignores = ChildProcess::start([path] {
        ::signal(SIGHUP, SIG_IGN);
        WholeFile file(path);
        file.goes_with({SIGHUP});
        file.stream() << "whole";
        ::raise(SIGHUP);
        file.put_in_place();
        return 7;
    });
    CHECK(ignores.wait() == 7);
    CHECK(place.bytes_of("t.json") == "whole");
    ChildProcess late = ChildProcess::start([path] {
        ::signal(SIGINT, SIG_DFL);
        WholeFile file(path);
        file.goes_with({SIGINT});
        file.stream() << "newer";
        file.put_in_place();
        std::ofstream(path + ".new") << "somebody else's";
        ::raise(SIGINT);
        return 0;
    });
    CHECK(late.wait() == -1);
    CHECK(place.bytes_of("t.json") == "newer");
    CHECK(place.bytes_of("t.json.new") == "somebody else's");
}

TEST_CASE("what lies where a half-written file would be is left alone, a link, a FIFO and a file") {
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
        if (is_finished) file.put_in_place();
    }
    CHECK(place.bytes_of("t.json") == "all");
    CHECK(place.bytes_of("victim") == "precious");
    CHECK(std::filesystem::symlink_status(taken).type() != std::filesystem::file_type::not_found);
    CHECK_FALSE(std::filesystem::exists(path + ".new1"));
}
