// "Wrong owner, no permission": a second user is told "permission", never left to a time-out.
#include <catch2/catch.hpp>

#include "second_user.h"
#include "shm/plane.h"
#include "test_session.h"

using namespace croupier;
using namespace croupier::shm;
using namespace croupier::testing;

namespace {

constexpr int kPermission = 10;
constexpr int kSomethingElse = 11;

// The exit code of `attempt`, made by a user who owns nothing here.
template <typename Attempt>
int error_of_nobody(Attempt&& attempt) {
    return as_nobody([&] {
        const Error error = attempt();
        const bool named = error.message.find("ermission") != std::string::npos;
        return error.code == Errc::permission_denied && named ? kPermission : kSomethingElse;
    });
}

}  // namespace

TEST_CASE("another user who opens a session's segment is refused with the word permission") {
    if (!can_change_user()) return;
    TestSession session;
    for (const Access access : {Access::read_only, Access::read_write}) {
        CHECK(error_of_nobody([&] { return Segment::attach(session.path(), access).error(); }) ==
              kPermission);
    }
}

TEST_CASE("another user whom the mode lets read may look and not write") {
    if (!can_change_user()) return;
    TestDirectory directory;
    SegmentSpec spec = spec_in(directory, small_geometry());
    spec.ownership.mode = 0644;
    auto created = Segment::create(spec);
    REQUIRE(created);
    const std::string path = created.value().path();
    CHECK(error_of_nobody([&] { return Segment::attach(path, Access::read_write).error(); }) == kPermission);
    CHECK(error_of_nobody([&] {
              auto attached = Segment::attach(path, Access::read_only);
              return attached ? Error{Errc::permission_denied, "permission to read only"} : attached.error();
          }) == kPermission);
}

TEST_CASE("a daemon that may not write to the directory, or to another user's plane, says permission") {
    if (!can_change_user()) return;
    TestDirectory directory;
    CHECK(error_of_nobody([&] { return Segment::create(spec_in(directory, small_geometry())).error(); }) ==
          kPermission);
    REQUIRE(Plane::create(directory.path(), "test", 1, 1));
    CHECK(error_of_nobody([&] {
              return Plane::attach(directory.path(), "test", Access::read_write).error();
          }) == kPermission);
}

TEST_CASE("a group that does not exist is refused by its name") {
    TestDirectory directory;
    SegmentSpec spec = spec_in(directory, small_geometry());
    spec.ownership.group = "no-such-group";
    const auto created = Segment::create(spec);
    REQUIRE_FALSE(created);
    CHECK(created.error().message.find("no-such-group") != std::string::npos);
}
