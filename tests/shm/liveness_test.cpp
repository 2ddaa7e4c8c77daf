// Liveness is a lock that a dying process cannot keep.
#include <catch2/catch.hpp>
#include <csignal>

#include "shm/logits_publisher.h"
#include "shm/plane.h"
#include "test_session.h"
#include "testing/child_process.h"

using namespace croupier;
using namespace croupier::shm;
using namespace croupier::testing;

TEST_CASE("a role is held by one live process, and free as soon as SIGKILL took it") {
    TestSession session;
    auto holder = ChildProcess::start([&] {
        auto segment = Segment::attach(session.path(), Access::read_write);
        auto client = SchedulePublisher::attach(segment.value());
        auto writer = LogitsPublisher::attach(segment.value(), 1);
        ::raise(SIGSTOP);
        return client && writer ? 0 : 1;
    });
    REQUIRE(holder.wait_until_stopped());
    CHECK(session.daemon().is_held(Role::client));
    CHECK(session.daemon().is_held(writer_role(1)));
    CHECK_FALSE(session.daemon().is_held(writer_role(0)));
    Segment segment = session.open();
    const auto second = SchedulePublisher::attach(segment);
    REQUIRE_FALSE(second);
    CHECK(second.error().code == Errc::already_held);
    CHECK(second.error().message.find("pid " + std::to_string(holder.pid())) != std::string::npos);
    const auto second_writer = LogitsPublisher::attach(segment, 1);
    REQUIRE_FALSE(second_writer);
    CHECK(second_writer.error().message.find("pid " + std::to_string(holder.pid())) != std::string::npos);

    holder.kill_and_reap();
    CHECK_FALSE(session.daemon().is_held(Role::client));
    CHECK_FALSE(session.daemon().is_held(writer_role(1)));
    CHECK(SchedulePublisher::attach(segment));
    CHECK(LogitsPublisher::attach(segment, 1));
}

TEST_CASE("a new segment is held by the daemon before anybody can open it") {
    TestSession session;
    CHECK(session.open().is_held(Role::daemon));
}

TEST_CASE("a segment's name is given once") {
    TestDirectory directory;
    const auto first = Segment::create(spec_in(directory, small_geometry()));
    REQUIRE(first);
    const auto second = Segment::create(spec_in(directory, small_geometry()));
    REQUIRE_FALSE(second);
    CHECK(second.error().code == Errc::already_held);
    CHECK(second.error().message.find(first.value().path()) == 0);
}

TEST_CASE("a plane tells whether its daemon and each sampler live, also to those who may only read") {
    TestDirectory directory;
    auto daemon = ChildProcess::start([&] {
        auto plane = Plane::create(directory.path(), "test", 3, 1);
        if (!plane || !plane.value().hold_sampler(2)) return 1;
        ::raise(SIGSTOP);
        return 0;
    });
    REQUIRE(daemon.wait_until_stopped());
    const auto watcher = Plane::attach(directory.path(), "test", Access::read_only);
    REQUIRE(watcher);
    CHECK(watcher.value().header().daemon_pid == daemon.pid());
    CHECK(watcher.value().daemon_alive());
    CHECK(watcher.value().sampler_alive(2));
    CHECK_FALSE(watcher.value().sampler_alive(1));
    daemon.kill_and_reap();
    CHECK_FALSE(watcher.value().daemon_alive());
    CHECK_FALSE(watcher.value().sampler_alive(2));
}
