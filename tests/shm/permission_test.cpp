// "Wrong owner, no permission": a second user is told "permission", never left to a time-out.
#include <grp.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "child_process.h"
#include "shm/bell.h"
#include "test_session.h"

using namespace croupier;
using namespace croupier::shm;

namespace {

constexpr uid_t kNobody = 65534;
constexpr int kPermission = 10;
constexpr int kSomethingElse = 11;

// The exit code of `attempt`, made by a user who owns nothing here.
template <typename Attempt>
int as_nobody(Attempt&& attempt) {
    auto child = ChildProcess::start([&] {
        if (::setgroups(0, nullptr) != 0 || ::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)
            return kSomethingElse;
        const Error error = attempt();
        const bool named = error.message.find("permission") != std::string::npos;
        return error.code == Errc::permission_denied && named ? kPermission : kSomethingElse;
    });
    return child.wait();
}

bool can_change_user() {
    if (::geteuid() == 0) return true;
    WARN("skipped: only root can become a second user");
    return false;
}

}  // namespace

TEST_CASE("another user who opens a session's segment is refused with the word permission") {
    if (!can_change_user()) return;
    TestSession session;
    for (const Access access : {Access::read_only, Access::read_write}) {
        CHECK(as_nobody([&] { return Segment::attach(session.path(), access).error(); }) == kPermission);
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
    CHECK(as_nobody([&] { return Segment::attach(path, Access::read_write).error(); }) == kPermission);
    CHECK(as_nobody([&] {
              auto attached = Segment::attach(path, Access::read_only);
              return attached ? Error{Errc::permission_denied, "permission to read only"} : attached.error();
          }) == kPermission);
}

TEST_CASE("a daemon that may not write to the directory, or to another user's bell, says permission") {
    if (!can_change_user()) return;
    TestDirectory directory;
    CHECK(as_nobody([&] { return Segment::create(spec_in(directory, small_geometry())).error(); }) ==
          kPermission);
    REQUIRE(Bell::create_or_adopt(directory.path(), "test", {}));
    CHECK(as_nobody([&] { return Bell::attach(directory.path(), "test").error(); }) == kPermission);
    CHECK(as_nobody([&] { return Bell::create_or_adopt(directory.path(), "test", {}).error(); }) ==
          kPermission);
}

TEST_CASE("a group that does not exist is refused by its name") {
    TestDirectory directory;
    SegmentSpec spec = spec_in(directory, small_geometry());
    spec.ownership.group = "no-such-group";
    const auto created = Segment::create(spec);
    REQUIRE_FALSE(created);
    CHECK(created.error().message.find("no-such-group") != std::string::npos);
}
