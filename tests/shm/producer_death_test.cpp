// "Producer dies in the middle of a record", "a partial write": SIGKILL between any two instructions.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <vector>

#include "shm/logits_publisher.h"
#include "shm/step_claims.h"
#include "shm/step_window.h"
#include "single_step.h"
#include "test_session.h"

using namespace croupier;
using namespace croupier::shm;

namespace {

std::uint32_t columns_in(std::uint64_t step) {
    return 2 + static_cast<std::uint32_t>(step % 7);
}

// As earlier steps of the slot leave them, whose number may come round.
void leave_ready_words(const Segment& segment, std::uint64_t step) {
    for (std::uint32_t rank = 0; rank < segment.geometry().tp; ++rank) {
        auto& ready = segment.ready(segment.slot_of(step), rank);
        ready.word.store(step + 1);
        for (auto& stamp : ready.stamps) stamp.store(step + 1);
    }
}

bool has_ready_words(const Segment& segment, std::uint32_t slot) {
    bool any = false;
    for (std::uint32_t rank = 0; rank < segment.geometry().tp; ++rank) {
        const auto& ready = segment.ready(slot, rank);
        any = any || ready.word.load() != 0;
        for (const auto& stamp : ready.stamps) any = any || stamp.load() != 0;
    }
    return any;
}

// What no reader may ever see of a published step: a part of it.
bool whole_record(const Segment& segment, std::uint64_t step) {
    const std::uint32_t slot = segment.slot_of(step);
    const auto& record = segment.schedule(slot);
    const auto expected = columns_of(step, columns_in(step));
    if (record.step != step || record.columns != expected.size() || record.published_ns == 0) return false;
    if (segment.decision_head(slot).step.load() != step) return false;
    if (step_refusal(segment, slot) != proto::DecisionError::none || has_ready_words(segment, slot))
        return false;
    for (std::uint32_t i = 0; i < record.columns; ++i) {
        if (!same(segment.schedule_columns(slot)[i], expected[i])) return false;
        if (segment.claims(slot)[i].load() != proto::ClaimWord{static_cast<std::uint32_t>(step), 0}.pack())
            return false;
        if (StepClaims(segment, step).is_committed(i) || segment.crashes(slot)[i].load() != 0) return false;
    }
    return true;
}

constexpr float kUnwritten = -1.0F;

std::size_t slice_elements(const Segment& segment, std::uint64_t step, std::uint32_t rank) {
    const auto& g = segment.geometry();
    return std::size_t{g.tiles(rank)} * g.tile * segment.schedule(segment.slot_of(step)).columns;
}

void fill_slice(const LogitsPublisher& writer, const Segment& segment, std::uint64_t step) {
    auto* slice = static_cast<float*>(writer.slice(step));
    std::fill_n(slice, slice_elements(segment, step, writer.rank()), static_cast<float>(step));
}

bool whole_slice(const Segment& segment, std::uint64_t step, std::uint32_t rank) {
    const auto* slice = static_cast<const float*>(segment.logits(segment.slot_of(step), rank));
    return std::all_of(slice, slice + slice_elements(segment, step, rank),
                       [&](float value) { return value == static_cast<float>(step); });
}

}  // namespace

TEST_CASE("a client that dies at any instruction of publish leaves nothing or the whole record") {
    if (!can_single_step()) return;
    TestSession session;
    Segment& reader = session.daemon();
    std::uint64_t step = 0;
    long saw_nothing = 0;
    long saw_whole = 0;

    const SteppedBody publish = [&](const std::function<void()>& marker) {
        auto segment = Segment::attach(session.path(), Access::read_write);
        auto client = SchedulePublisher::attach(segment.value());
        const auto columns = columns_of(step, columns_in(step));
        marker();
        (void)client.value().publish(columns);
        marker();
    };
    leave_ready_words(reader, step);
    die_everywhere(publish, [&](long instructions) {
        INFO("killed after " << instructions << " instructions of step " << step);
        const StepWindow window = steps_in_flight(reader);
        REQUIRE(window.sound);
        REQUIRE(window.first == step);
        const bool published = window.end == step + 1;
        if (published) {
            REQUIRE(whole_record(reader, step));
        } else {
            REQUIRE(window.end == step);
        }
        ++(published ? saw_whole : saw_nothing);

        Segment segment = session.open();
        auto successor = SchedulePublisher::attach(segment);
        REQUIRE(successor);
        if (!published) REQUIRE(successor.value().publish(columns_of(step, columns_in(step))));
        REQUIRE(whole_record(reader, step));
        REQUIRE(decide_rest(reader, step, columns_in(step), 1) == columns_in(step));
        REQUIRE(take_all(successor.value(), segment));
        leave_ready_words(reader, ++step);
    });
    CHECK(saw_nothing > 0);
    CHECK(saw_whole > 0);
}

TEST_CASE(
    "a writer that dies at any instruction leaves no slice or the whole slice, and its successor goes on") {
    if (!can_single_step()) return;
    TestSession session;
    Segment& reader = session.daemon();
    Segment client_segment = session.open();
    auto client = SchedulePublisher::attach(client_segment);
    REQUIRE(client);
    constexpr std::uint32_t kRank = 1;
    long vouched = 0;
    long rewritten = 0;
    std::uint64_t step = 0;
    const auto next_round = [&] {
        step = client.value().publish(columns_of(client.value().next_to_publish(), 2)).value();
        auto* slice = static_cast<float*>(reader.logits(reader.slot_of(step), kRank));
        std::fill_n(slice, slice_elements(reader, step, kRank), kUnwritten);
    };
    next_round();

    const SteppedBody write = [&](const std::function<void()>& marker) {
        auto segment = Segment::attach(session.path(), Access::read_write);
        auto writer = LogitsPublisher::attach(segment.value(), kRank);
        marker();
        fill_slice(writer.value(), segment.value(), step);
        (void)writer.value().publish(step, 1);
        (void)writer.value().publish(step, segment.value().geometry().tiles(kRank));
        marker();
    };
    die_everywhere(write, [&](long instructions) {
        INFO("killed after " << instructions << " instructions of step " << step);
        const bool ready = slice_ready(reader, step, kRank);
        if (ready) REQUIRE(whole_slice(reader, step, kRank));
        {
            Segment segment = session.open();
            auto successor = LogitsPublisher::attach(segment, kRank);
            REQUIRE(successor);
            // A complete slice of the dead one is vouched for; a part of one is asked for again.
            REQUIRE(slice_ready(reader, step, kRank) == ready);
            REQUIRE(successor.value().next_step().has_value() != ready);
            if (!ready) {
                REQUIRE(successor.value().next_step() == step);
                fill_slice(successor.value(), segment, step);
                REQUIRE(successor.value().publish(step, segment.geometry().tiles(kRank)));
            }
            ++(ready ? vouched : rewritten);
            // This process lives on, and the next round's writer must not wait for its end.
            successor.value().leave();
        }
        REQUIRE(slice_ready(reader, step, kRank));
        REQUIRE(whole_slice(reader, step, kRank));
        decide_rest(reader, step, 2, 1);
        REQUIRE(take_all(client.value(), client_segment));
        next_round();
    });
    CHECK(vouched > 0);
    CHECK(rewritten > 0);
}
