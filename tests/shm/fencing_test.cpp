// "A writer is paused past its lease": stopped by a signal, fenced meanwhile, refused when it wakes.
#include <catch2/catch.hpp>
#include <csignal>

#include "shm/logits_publisher.h"
#include "shm/step_window.h"
#include "test_session.h"
#include "testing/child_process.h"

using namespace croupier;
using namespace croupier::shm;
using namespace croupier::testing;
using proto::SessionCounter;

namespace {

// Exit codes of the children.
constexpr int kRefusedAsStale = 10;
constexpr int kAccepted = 11;
constexpr int kOtherwise = 12;

template <typename T>
int outcome(const Result<T>& result) {
    if (result) return kAccepted;
    return result.error().code == Errc::stale_epoch ? kRefusedAsStale : kOtherwise;
}

ChildProcess paused_writer(const TestSession& session) {
    return ChildProcess::start([&] {
        auto segment = Segment::attach(session.path(), Access::read_write);
        auto writer = LogitsPublisher::attach(segment.value(), 0);
        if (!writer.value().publish(0, 1)) return kOtherwise;
        ::raise(SIGSTOP);
        return outcome(writer.value().publish(0, segment.value().geometry().tiles(0)));
    });
}

ChildProcess paused_client(const TestSession& session) {
    return ChildProcess::start([&] {
        auto segment = Segment::attach(session.path(), Access::read_write);
        auto client = SchedulePublisher::attach(segment.value());
        if (!client.value().publish(columns_of(0, 2))) return kOtherwise;
        ::raise(SIGSTOP);
        return outcome(client.value().publish(columns_of(1, 2)));
    });
}

}  // namespace

TEST_CASE("a writer that was paused while its session was fenced is refused and counted when it wakes") {
    TestSession session;
    Segment segment = session.open();
    auto client = SchedulePublisher::attach(segment);
    REQUIRE(client.value().publish(columns_of(0, 2)));
    auto writer = paused_writer(session);
    REQUIRE(writer.wait_until_stopped());
    session.daemon().header().state.store(proto::SessionState::fenced);
    writer.send(SIGCONT);
    CHECK(writer.wait() == kRefusedAsStale);
    CHECK(session.count(SessionCounter::stale_epoch_refused) == 1);
    CHECK_FALSE(slice_ready(session.daemon(), 0, 0));
}

TEST_CASE("a writer that was paused and not fenced goes on") {
    TestSession session;
    Segment segment = session.open();
    auto client = SchedulePublisher::attach(segment);
    REQUIRE(client.value().publish(columns_of(0, 2)));
    auto writer = paused_writer(session);
    REQUIRE(writer.wait_until_stopped());
    writer.send(SIGCONT);
    CHECK(writer.wait() == kAccepted);
    CHECK(session.count(SessionCounter::stale_epoch_refused) == 0);
}

TEST_CASE("a client that was paused while its session was fenced is refused and counted when it wakes") {
    TestSession session;
    auto client = paused_client(session);
    REQUIRE(client.wait_until_stopped());
    session.daemon().header().state.store(proto::SessionState::fenced);
    client.send(SIGCONT);
    CHECK(client.wait() == kRefusedAsStale);
    CHECK(session.count(SessionCounter::stale_epoch_refused) == 1);
    CHECK(steps_in_flight(session.daemon()).end == 1);
}

TEST_CASE("the epoch is checked at every commit of a client and of a writer") {
    TestSession session;
    Segment segment = session.open();
    auto client = SchedulePublisher::attach(segment);
    auto writer = LogitsPublisher::attach(segment, 0);
    REQUIRE(client.value().publish(columns_of(0, 2)));
    session.daemon().header().writers[0].epoch.fetch_add(1);
    session.daemon().header().client_epoch.fetch_add(1);
    CHECK(outcome(writer.value().publish(0, 1)) == kRefusedAsStale);
    CHECK(outcome(writer.value().publish_randoms(0)) == kRefusedAsStale);
    CHECK(outcome(client.value().publish(columns_of(1, 2))) == kRefusedAsStale);
    CHECK(session.count(SessionCounter::stale_epoch_refused) == 3);
}
