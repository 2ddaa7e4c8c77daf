#include "shm/column_due.h"

#include <catch2/catch.hpp>

#include "shm/sequence_table.h"
#include "test_session.h"

using namespace croupier;
using namespace croupier::shm;

namespace {

// One sequence, of three tokens, in the last column of each step that is published.
class Ahead {
  public:
    Ahead() : segment_(session_.open()), publisher_(attach()), table_(segment_) {
        NewSequence sequence;
        sequence.uid = 77;
        sequence.prompt = prompt_;
        slot_ = table_.add(sequence).value();
    }

    const Segment& segment() const { return segment_; }
    SequenceTable& table() { return table_; }
    SchedulePublisher& publisher() { return publisher_; }
    std::uint32_t slot() const { return slot_; }
    proto::ScheduleColumn& published(std::uint64_t step) {
        return *segment_.schedule_columns(segment_.slot_of(step))[kColumn].place();
    }

    // The sequence's next column: after the one that stands `steps` before.
    std::uint64_t publish(std::uint32_t position, std::uint16_t steps) {
        std::vector<proto::ScheduleColumn> columns(kColumn + 1);
        for (auto& other : columns) other.sequence_slot = slot_ + 1;
        proto::ScheduleColumn& asked = columns[kColumn];
        asked.sequence_uid = 77;
        asked.sequence_slot = slot_;
        asked.position = position;
        asked.ticket = ticket_++;
        asked.revision = segment_.sequence(slot_).revision(std::memory_order_relaxed).number;
        asked.after_steps = steps;
        asked.after_column = steps == 0 ? 0 : kColumn;
        return publisher_.publish(columns, proto::kFollows).value();
    }
    DueColumn turn(std::uint64_t step) { return due_of(segment_, step, kColumn, published(step)); }
    void decide(std::uint64_t step, proto::DecisionError error = proto::DecisionError::none,
                std::uint16_t flags = 0) {
        const StepClaims claims(segment_, step);
        proto::Decision decision;
        decision.sequence_uid = 77;
        decision.position = published(step).position;
        decision.error = error;
        decision.flags = flags;
        REQUIRE(claims.try_claim(kColumn, 5));
        claims.commit(kColumn, kColumn + 1, decision);
    }
    // Its neighbours, and the step is done with.
    void take(std::uint64_t step) {
        decide_rest(segment_, step, kColumn + 1, 5);
        REQUIRE(publisher_.next_to_take() == step);
        publisher_.take();
    }

    static constexpr std::uint32_t kColumn = 2;

  private:
    SchedulePublisher attach() { return SchedulePublisher::attach(segment_).value(); }

    TestSession session_;
    Segment segment_;
    SchedulePublisher publisher_;
    SequenceTable table_;
    std::vector<std::int32_t> prompt_ = {1, 2, 3};
    std::uint32_t slot_ = 0;
    std::uint32_t ticket_ = 40;
};

}  // namespace

TEST_CASE("a column's turn comes when the one before it is committed") {
    Ahead ahead;
    const std::uint64_t first = ahead.publish(0, 0);
    const std::uint64_t second = ahead.publish(1, 1);
    CHECK(ahead.turn(first).due == Due::now);
    CHECK(ahead.turn(first).outputs == 0);
    CHECK(ahead.turn(second).due == Due::later);
    ahead.decide(first);
    CHECK(ahead.turn(second).due == Due::now);
    CHECK(ahead.turn(second).outputs == 1);
}

TEST_CASE("a column is void after an error or a stop, taken or not") {
    Ahead ahead;
    const std::uint64_t first = ahead.publish(0, 0);
    const std::uint64_t second = ahead.publish(1, 1);
    SECTION("an error") {
        ahead.decide(first, proto::DecisionError::nan_logit);
    }
    SECTION("a step that was given up") {
        ahead.decide(first, proto::DecisionError::given_up);
    }
    SECTION("a stop") {
        ahead.decide(first, proto::DecisionError::none, proto::kStoppedByEos);
    }
    CHECK(ahead.turn(second).due == Due::never);
    ahead.take(first);
    CHECK(ahead.turn(second).due == Due::never);
    // What is submitted after that goes on, once what is void is answered.
    const std::uint32_t outputs = ahead.segment().sequence(ahead.slot()).length.load() - 3;
    const std::uint64_t third = ahead.publish(outputs, 1);
    CHECK(ahead.turn(third).due == Due::later);
    ahead.decide(second, proto::DecisionError::voided);
    CHECK(ahead.turn(third).due == Due::now);
    CHECK(ahead.turn(third).outputs == outputs);
}

TEST_CASE("where the step before is done with, the log tells, whatever its slot holds by now") {
    Ahead ahead;
    const std::uint32_t slots = ahead.segment().geometry().slots;
    REQUIRE(slots >= 2);
    ahead.publish(0, 0);
    const std::uint64_t second = ahead.publish(1, 1);
    ahead.decide(0);
    ahead.take(0);
    CHECK(ahead.turn(second).due == Due::now);
    CHECK(ahead.turn(second).outputs == 1);
    // In the slot of the first, when the ring has come round.
    for (std::uint32_t step = 2; step <= slots; ++step) ahead.publish(step, 1);
    CHECK(ahead.turn(second).due == Due::now);
    CHECK(ahead.turn(second).outputs == 1);
}

TEST_CASE(
    "a truncate makes void what is in flight, and the next column waits for it and knows the new length") {
    Ahead ahead;
    ahead.publish(0, 0);
    ahead.decide(0);
    ahead.take(0);
    const std::uint64_t second = ahead.publish(1, 0);
    const std::uint64_t third = ahead.publish(2, 1);
    REQUIRE(ahead.table().truncate(ahead.slot(), 0));
    CHECK(ahead.turn(second).due == Due::never);
    CHECK(ahead.turn(third).due == Due::never);
    ahead.decide(second, proto::DecisionError::voided);
    ahead.take(second);
    const std::uint64_t fourth = ahead.publish(0, 1);
    CHECK(ahead.turn(fourth).due == Due::later);
    ahead.decide(third, proto::DecisionError::voided);
    CHECK(ahead.turn(fourth).due == Due::now);
    CHECK(ahead.turn(fourth).outputs == 0);
}

TEST_CASE("nobody's turn comes while a column further back is being decided") {
    Ahead ahead;
    if (ahead.segment().geometry().slots < 3) return;
    const std::uint64_t first = ahead.publish(0, 0);
    const std::uint64_t second = ahead.publish(1, 1);
    // The first has been claimed; the second is given up before its turn.
    ahead.decide(second, proto::DecisionError::given_up);
    REQUIRE(ahead.table().truncate(ahead.slot(), 0));
    const std::uint64_t third = ahead.publish(0, 1);
    CHECK(ahead.turn(third).due == Due::later);
    ahead.decide(first);
    CHECK(ahead.turn(third).due == Due::now);
    CHECK(ahead.turn(third).outputs == 0);
}

TEST_CASE("a void column is answered though samplers died of it, and nobody decides it alone any more") {
    Ahead ahead;
    const std::uint64_t first = ahead.publish(0, 0);
    const StepClaims claims(ahead.segment(), first);
    REQUIRE(claims.try_claim(Ahead::kColumn, 5));
    REQUIRE(claims.reopen(5, Ahead::kColumn + 1, true) == 1);
    REQUIRE(claims.is_suspect(Ahead::kColumn));
    REQUIRE(claims.try_claim_void(Ahead::kColumn, 6));
    CHECK_FALSE(claims.try_claim_suspect(Ahead::kColumn, 7));
    claims.answer(Ahead::kColumn, Ahead::kColumn + 1, proto::DecisionError::voided);
    CHECK(claims.is_committed(Ahead::kColumn));
}

TEST_CASE("what was decided of a truncated sequence does not lengthen its log") {
    Ahead ahead;
    const std::uint64_t first = ahead.publish(0, 0);
    ahead.decide(first);
    REQUIRE(ahead.table().truncate(ahead.slot(), 0));
    ahead.take(first);
    CHECK(ahead.segment().sequence(ahead.slot()).length.load() == 3);
}

TEST_CASE("a record that contradicts itself is nobody's turn") {
    Ahead ahead;
    ahead.publish(0, 0);
    const std::uint64_t second = ahead.publish(1, 1);
    proto::ScheduleColumn& column = ahead.published(second);
    SECTION("more steps back than the ring has") {
        column.after_steps = static_cast<std::uint16_t>(ahead.segment().geometry().slots);
    }
    SECTION("a step before the first") {
        column.after_steps = 2;
    }
    SECTION("a column that the session has not") {
        column.after_column = 0xFFFF;
    }
    SECTION("another sequence's column") {
        column.after_column = 0;
    }
    SECTION("not its next ticket") {
        column.ticket += 1;
    }
    CHECK(ahead.turn(second).due == Due::broken);
}
