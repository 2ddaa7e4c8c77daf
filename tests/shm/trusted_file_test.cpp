// Which files are opened at all: regular ones of the right owner, in a directory that nobody else may write
// to.
#include <fcntl.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "second_user.h"
#include "shm/file.h"
#include "test_session.h"

using namespace croupier;
using namespace croupier::shm;
using namespace croupier::testing;
using Catch::Contains;

namespace {

std::string refusal_of(const std::string& path) {
    const auto opened = open_file(path, Access::read_write);
    return opened ? "opened" : std::string(errc_name(opened.error().code)) + ": " + opened.error().message;
}

}  // namespace

TEST_CASE("a FIFO is refused as what it is, whether somebody writes to it or not") {
    const TestDirectory directory;
    const std::string path = directory.path() + "/croupier-test-1.seg";
    REQUIRE(::mkfifo(path.c_str(), 0666) == 0);
    // In a child with an alarm: opening it may not block, and whoever blocks is ended by it.
    auto reader = ChildProcess::start([&] {
        ::alarm(5);
        return open_file(path, Access::read_only) ? 1 : 0;
    });
    CHECK(reader.wait() == 0);
    CHECK_THAT(refusal_of(path), Contains("bad_magic") && Contains("not a regular file"));
}

TEST_CASE("a link is not followed, whatever it leads to") {
    const TestDirectory directory;
    const std::string path = directory.path() + "/croupier-test-1.seg";
    std::ofstream(directory.path() + "/target") << "content";
    std::filesystem::create_symlink(directory.path() + "/target", path);
    CHECK_THAT(refusal_of(path), Contains(path));
    const std::string linked = directory.path() + "-link";
    std::filesystem::create_directory_symlink(directory.path(), linked);
    CHECK_THAT(refusal_of(linked + "/target"), Contains(linked));
    std::filesystem::remove(linked);
}

TEST_CASE("a file of another owner than its directory's is refused, naming the two") {
    if (!can_change_user()) return;
    const TestDirectory directory;
    const std::string path = directory.path() + "/croupier-test-1.seg";
    std::ofstream(path) << "content";
    CHECK(refusal_of(path) == "opened");
    REQUIRE(::chown(path.c_str(), kNobody, kNobody) == 0);
    CHECK_THAT(refusal_of(path), Contains("permission_denied") && Contains("uid 65534"));
}

TEST_CASE("a file in a directory that others may write to is refused, naming the directory") {
    const TestDirectory directory;
    const std::string path = directory.path() + "/croupier-test-1.seg";
    std::ofstream(path) << "content";
    for (const mode_t mode : {0777U, 01777U, 0770U}) {
        REQUIRE(::chmod(directory.path().c_str(), mode) == 0);
        CHECK_THAT(refusal_of(path), Contains("permission_denied") && Contains(directory.path()));
    }
    REQUIRE(::chmod(directory.path().c_str(), 0755) == 0);
    CHECK(refusal_of(path) == "opened");
}
