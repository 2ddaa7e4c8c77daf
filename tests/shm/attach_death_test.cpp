// Roles change hands at once, also when their new holder dies while it attaches.
#include <catch2/catch.hpp>

#include "shm/logits_publisher.h"
#include "shm/step_window.h"
#include "single_step.h"
#include "test_session.h"

using namespace croupier;
using namespace croupier::shm;

TEST_CASE(
    "a client that dies at any instruction of attach leaves the role and the steps in flight to the next") {
    if (!can_single_step()) return;
    TestSession session;
    {
        Segment segment = session.open();
        auto client = SchedulePublisher::attach(segment);
        REQUIRE(client.value().publish(columns_of(0, 2)));
    }
    std::uint32_t last_epoch = 0;
    const SteppedBody attach = [&](const std::function<void()>& marker) {
        auto segment = Segment::attach(session.path(), Access::read_write);
        marker();
        (void)SchedulePublisher::attach(segment.value());
        marker();
    };
    die_everywhere(attach, [&](long instructions) {
        INFO("killed after " << instructions << " instructions");
        REQUIRE_FALSE(session.daemon().is_held(Role::client));
        Segment segment = session.open();
        auto successor = SchedulePublisher::attach(segment);
        REQUIRE(successor);
        REQUIRE(successor.value().epoch() > last_epoch);
        last_epoch = successor.value().epoch();
        REQUIRE(successor.value().next_to_take() == 0);
        REQUIRE(successor.value().next_to_publish() == 1);
    });
}

TEST_CASE("a writer that dies at any instruction of attach does not lose its predecessor's complete slice") {
    if (!can_single_step()) return;
    TestSession session;
    Segment client_segment = session.open();
    auto client = SchedulePublisher::attach(client_segment);
    REQUIRE(client.value().publish(columns_of(0, 2)));
    {
        Segment segment = session.open();
        auto writer = LogitsPublisher::attach(segment, 0);
        REQUIRE(writer.value().publish(0, segment.geometry().tiles(0)));
        // This process lives on, and no writer after it must wait for its end; nor below.
        writer.value().leave();
    }
    const SteppedBody attach = [&](const std::function<void()>& marker) {
        auto segment = Segment::attach(session.path(), Access::read_write);
        marker();
        (void)LogitsPublisher::attach(segment.value(), 0);
        marker();
    };
    die_everywhere(attach, [&](long instructions) {
        INFO("killed after " << instructions << " instructions");
        Segment segment = session.open();
        auto successor = LogitsPublisher::attach(segment, 0);
        REQUIRE(successor);
        REQUIRE(slice_ready(session.daemon(), 0, 0));
        REQUIRE_FALSE(successor.value().next_step().has_value());
        successor.value().leave();
    });
}
