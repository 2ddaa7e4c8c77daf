#include <catch2/catch.hpp>
#include <vector>

#include "shm/column_due.h"
#include "shm/sequence_table.h"
#include "test_session.h"

using namespace croupier;
using namespace croupier::shm;
using proto::DecisionError;
using proto::RowInput;

namespace {

// One sequence of three prompt tokens, in windows behind a neighbour's column.
class Windows {
  public:
    static constexpr std::uint32_t kHead = 1;

    Windows() : segment_(session_.open()), publisher_(attach()), table_(segment_) {
        NewSequence sequence;
        sequence.uid = 77;
        sequence.prompt = prompt_;
        slot_ = table_.add(sequence).value();
    }

    SequenceTable& table() { return table_; }
    std::uint32_t slot() const { return slot_; }
    std::uint32_t outputs() const { return segment_.sequence(slot_).length.load() - 3; }
    proto::ScheduleColumn& published(std::uint64_t step, std::uint32_t row) {
        return *segment_.schedule_columns(segment_.slot_of(step))[kHead + row].place();
    }

    // `inputs` of all rows; parents within the window, the row before where there are none.
    std::uint64_t publish(const std::vector<std::int32_t>& inputs, std::uint16_t steps = 0,
                          const std::vector<std::uint32_t>& parents = {}) {
        std::vector<proto::ScheduleColumn> columns(kHead + inputs.size());
        columns[0].sequence_slot = slot_ + 1;
        for (std::uint32_t row = 0; row < inputs.size(); ++row) {
            proto::ScheduleColumn& asked = columns[kHead + row];
            asked.sequence_uid = 77;
            asked.sequence_slot = slot_;
            asked.row = static_cast<std::uint16_t>(row);
            asked.ticket = ticket_++;
            asked.revision = segment_.sequence(slot_).revision(std::memory_order_relaxed).number;
            if (row > 0) continue;
            asked.after_steps = steps;
            asked.after_column = steps == 0 ? 0 : last_column_;
        }
        last_column_ = static_cast<std::uint16_t>(columns.size() - 1);
        const std::uint64_t step = publisher_.publish(columns, proto::kFollows | proto::kWindows).value();
        columns_.resize(step + 1);
        columns_[step] = static_cast<std::uint32_t>(columns.size());
        for (std::uint32_t row = 0; row < inputs.size(); ++row) {
            const std::uint32_t before = row == 0 ? 0 : row - 1;
            set_input(step, row, {inputs[row], kHead + (parents.empty() ? before : parents[row])});
        }
        return step;
    }
    void set_input(std::uint64_t step, std::uint32_t row, RowInput input) {
        for (std::uint32_t rank = 0; rank < segment_.geometry().tp; ++rank)
            set_input_of(rank, step, row, input);
    }
    void set_input_of(std::uint32_t rank, std::uint64_t step, std::uint32_t row, RowInput input) {
        segment_.inputs(segment_.slot_of(step), rank)[kHead + row].store(input.pack());
    }
    DueColumn due(std::uint64_t step, std::uint32_t row) {
        return due_of(segment_, step, kHead + row, published(step, row));
    }
    bool was_fed(std::uint64_t step) {
        return shm::was_fed(segment_, step, kHead, published(step, 0), due(step, 0).outputs);
    }
    void decide(std::uint64_t step, std::uint32_t row, std::int32_t token,
                DecisionError error = DecisionError::none, std::uint16_t flags = 0) {
        const DueColumn found = this->due(step, row);
        const StepClaims claims(segment_, step);
        proto::Decision decision;
        decision.sequence_uid = 77;
        decision.position = found.outputs;
        decision.token = token;
        decision.error = error;
        decision.flags = flags;
        if (error == DecisionError::none) segment_.token_log(slot_)[3 + found.outputs] = token;
        REQUIRE(claims.try_claim(kHead + row, 5));
        claims.commit(kHead + row, columns_[step], decision);
    }
    void reject(std::uint64_t step, std::uint32_t row) { decide(step, row, -1, DecisionError::rejected); }
    // Its neighbours, and the step is done with.
    void take(std::uint64_t step) {
        decide_rest(segment_, step, columns_[step], 5);
        REQUIRE(publisher_.next_to_take() == step);
        publisher_.take();
    }
    std::uint64_t count(proto::SessionCounter which) { return session_.count(which); }

  private:
    SchedulePublisher attach() { return SchedulePublisher::attach(segment_).value(); }

    TestSession session_;
    Segment segment_;
    SchedulePublisher publisher_;
    SequenceTable table_;
    std::vector<std::int32_t> prompt_ = {1, 2, 3};
    std::uint32_t slot_ = 0;
    std::uint32_t ticket_ = 40;
    std::uint16_t last_column_ = 0;
    std::vector<std::uint32_t> columns_;
};

}  // namespace

TEST_CASE("a row is due when its parent is decided to be its input, and its position is the next") {
    Windows windows;
    const std::uint64_t step = windows.publish({3, 50, 60});
    CHECK(windows.due(step, 0).due == Due::now);
    CHECK(windows.due(step, 1).due == Due::later);
    CHECK(windows.due(step, 2).due == Due::later);
    windows.decide(step, 0, 50);
    CHECK(windows.due(step, 1).due == Due::now);
    CHECK(windows.due(step, 1).outputs == 1);
    CHECK(windows.due(step, 2).due == Due::later);
    windows.decide(step, 1, 60);
    CHECK(windows.due(step, 2).due == Due::now);
    CHECK(windows.due(step, 2).outputs == 2);
    windows.decide(step, 2, 70);
    windows.take(step);
    CHECK(windows.outputs() == 3);
    CHECK(windows.count(proto::SessionCounter::drafts_offered) == 2);
    CHECK(windows.count(proto::SessionCounter::drafts_accepted) == 2);
}

TEST_CASE("behind a wrong draft all is rejected, whatever it was computed from") {
    Windows windows;
    const std::uint64_t step = windows.publish({3, 50, 60, 70});
    windows.decide(step, 0, 51);
    CHECK(windows.due(step, 1).due == Due::rejected);
    CHECK(windows.due(step, 2).due == Due::later);
    windows.reject(step, 1);
    // The token of the rejected parent is -1: no input is.
    CHECK(windows.due(step, 2).due == Due::rejected);
    windows.set_input(step, 2, {-1, Windows::kHead + 1});
    CHECK(windows.due(step, 2).due == Due::rejected);
    windows.reject(step, 2);
    windows.reject(step, 3);
    windows.take(step);
    CHECK(windows.outputs() == 1);
    CHECK(windows.count(proto::SessionCounter::drafts_offered) == 2);
    CHECK(windows.count(proto::SessionCounter::drafts_accepted) == 0);
    // Rejections end nothing.
    const std::uint64_t next = windows.publish({51, 52});
    CHECK(windows.due(next, 0).due == Due::now);
    CHECK(windows.due(next, 0).outputs == 1);
}

TEST_CASE("the next window's head waits for all rows, and follows the last token") {
    Windows windows;
    const std::uint64_t first = windows.publish({3, 50, 60});
    const std::uint64_t second = windows.publish({-2, 9}, 1);
    windows.decide(first, 0, 50);
    CHECK(windows.due(second, 0).due == Due::later);
    windows.decide(first, 1, 61);
    CHECK(windows.due(second, 0).due == Due::later);
    windows.reject(first, 2);
    CHECK(windows.due(second, 0).due == Due::now);
    CHECK(windows.due(second, 0).outputs == 2);
    SECTION("though its step is not taken") {}
    SECTION("and taken") {
        windows.take(first);
        CHECK(windows.due(second, 0).due == Due::now);
    }
    CHECK(windows.due(second, 0).outputs == 2);
    windows.decide(second, 0, 9);
    CHECK(windows.due(second, 1).due == Due::now);
    CHECK(windows.due(second, 1).outputs == 3);
}

TEST_CASE("a row that ranks computed from different tokens is rejected") {
    Windows windows;
    const std::uint64_t step = windows.publish({3, 50, 60});
    windows.decide(step, 0, 50);
    CHECK(windows.due(step, 1).due == Due::now);
    windows.set_input_of(1, step, 1, {51, Windows::kHead});
    CHECK(windows.due(step, 1).due == Due::rejected);
    windows.set_input_of(0, step, 1, {51, Windows::kHead});
    windows.set_input_of(1, step, 1, {50, Windows::kHead});
    CHECK(windows.due(step, 1).due == Due::rejected);
}

TEST_CASE("a stop or an error in a window ends it, and what is in flight behind it") {
    Windows windows;
    const std::uint64_t first = windows.publish({3, 50, 60, 70});
    const std::uint64_t second = windows.publish({-2, 9}, 1);
    windows.decide(first, 0, 50);
    SECTION("a stop") {
        windows.decide(first, 1, 60, DecisionError::none, proto::kStoppedByToken);
        CHECK(windows.due(first, 2).due == Due::rejected);
        windows.reject(first, 2);
        CHECK(windows.due(first, 3).due == Due::rejected);
        windows.reject(first, 3);
    }
    SECTION("an error") {
        windows.decide(first, 1, -1, DecisionError::nan_logit);
        CHECK(windows.due(first, 2).due == Due::never);
        windows.decide(first, 2, -1, DecisionError::voided);
        CHECK(windows.due(first, 3).due == Due::never);
        windows.decide(first, 3, -1, DecisionError::voided);
    }
    CHECK(windows.due(second, 0).due == Due::never);
    windows.decide(second, 0, -1, DecisionError::voided);
    CHECK(windows.due(second, 1).due == Due::never);
}

TEST_CASE("in a tree one path is right, and of twins the first one") {
    Windows windows;
    // The head has three children, of which two are twins; each of those has one.
    const std::uint64_t step = windows.publish({3, 50, 51, 51, 60, 61}, 0, {0, 0, 0, 0, 2, 3});
    windows.decide(step, 0, 51);
    CHECK(windows.due(step, 1).due == Due::rejected);
    // Rows are answered in their order.
    CHECK(windows.due(step, 2).due == Due::later);
    windows.reject(step, 1);
    CHECK(windows.due(step, 2).due == Due::now);
    CHECK(windows.due(step, 3).due == Due::later);
    CHECK(windows.due(step, 4).due == Due::later);
    windows.decide(step, 2, 60);
    CHECK(windows.due(step, 3).due == Due::rejected);
    windows.reject(step, 3);
    CHECK(windows.due(step, 4).due == Due::now);
    CHECK(windows.due(step, 4).outputs == 2);
    windows.decide(step, 4, 70);
    CHECK(windows.due(step, 5).due == Due::rejected);
}

TEST_CASE("after an error the rest of a tree is void, also what is like the row that has it") {
    Windows windows;
    const std::uint64_t step = windows.publish({3, 50, 50, 60}, 0, {0, 0, 0, 1});
    windows.decide(step, 0, 50);
    windows.decide(step, 1, -1, DecisionError::nan_logit);
    CHECK(windows.due(step, 2).due == Due::never);
    windows.decide(step, 2, -1, DecisionError::voided);
    CHECK(windows.due(step, 3).due == Due::never);
}

TEST_CASE("no position is decided twice where a writer that was replaced drafts anew") {
    Windows windows;
    const std::uint64_t step = windows.publish({3, 50, 60});
    windows.decide(step, 0, 50);
    windows.decide(step, 1, 60);
    REQUIRE(windows.due(step, 2).due == Due::now);
    windows.set_input(step, 1, {51, Windows::kHead});
    windows.set_input(step, 2, {50, Windows::kHead});
    CHECK(windows.due(step, 2).due == Due::rejected);
}

TEST_CASE("a row behind one that was decided and drafted anew is rejected") {
    Windows windows;
    const std::uint64_t step = windows.publish({3, 50, 60, 70});
    windows.decide(step, 0, 50);
    windows.decide(step, 1, 60);
    windows.decide(step, 2, 70);
    REQUIRE(windows.due(step, 3).due == Due::now);
    SECTION("from another token") {
        windows.set_input(step, 1, {51, Windows::kHead});
    }
    SECTION("behind another row") {
        windows.set_input(step, 2, {60, Windows::kHead});
    }
    SECTION("of no row") {
        windows.set_input(step, 2, {RowInput::kNone, Windows::kHead});
    }
    CHECK(windows.due(step, 3).due == Due::rejected);
}

TEST_CASE("a row behind one that was drafted anew nearer to the head is rejected though tokens repeat") {
    Windows windows;
    const std::uint64_t step = windows.publish({3, 50, 50, 50});
    windows.decide(step, 0, 50);
    windows.decide(step, 1, 50);
    windows.decide(step, 2, 50);
    REQUIRE(windows.due(step, 3).outputs == 3);
    windows.set_input(step, 2, {50, Windows::kHead});
    CHECK(windows.due(step, 3).due == Due::rejected);
}

TEST_CASE("a row behind a head that was decided and fed anew is rejected, but where the token is not told") {
    Windows windows;
    const std::uint64_t first = windows.publish({3});
    windows.decide(first, 0, 50);
    windows.take(first);
    const std::uint64_t step = windows.publish({50, 60});
    windows.decide(step, 0, 60);
    REQUIRE(windows.due(step, 1).due == Due::now);
    windows.set_input(step, 0, {RowInput::kAny, Windows::kHead});
    CHECK(windows.due(step, 1).due == Due::now);
    SECTION("with another token") {
        windows.set_input(step, 0, {51, Windows::kHead});
    }
    SECTION("with another token by one rank") {
        windows.set_input(step, 0, {50, Windows::kHead});
        windows.set_input_of(1, step, 0, {51, Windows::kHead});
    }
    SECTION("with none") {
        windows.set_input(step, 0, {RowInput::kNone, Windows::kHead});
    }
    CHECK(windows.due(step, 1).due == Due::rejected);
}

TEST_CASE("a parent that is no earlier row of the window is none") {
    Windows windows;
    const std::uint64_t step = windows.publish({3, 50, 50});
    windows.decide(step, 0, 50);
    const std::uint32_t parent = GENERATE(0U, Windows::kHead + 1, Windows::kHead + 2, ~0U);
    windows.set_input(step, 1, {50, parent});
    CHECK(windows.due(step, 1).due == Due::rejected);
}

TEST_CASE("a head was fed the last token of its sequence, unless nobody says what it was fed") {
    Windows windows;
    const auto [input, fed] = GENERATE(table<std::int32_t, bool>(
        {{60, true}, {RowInput::kAny, true}, {50, false}, {RowInput::kNone, false}}));
    const std::uint64_t first = windows.publish({input});
    // What a prompt ends with is the engine's own, but there must be a row.
    CHECK(windows.was_fed(first) == (input != RowInput::kNone));
    windows.decide(first, 0, 60);
    const std::uint64_t second = windows.publish({input, 9}, 1);
    CHECK(windows.was_fed(second) == fed);
}

TEST_CASE("after a truncate a window waits for those that are void, and knows the new length") {
    Windows windows;
    const std::uint64_t first = windows.publish({3, 50, 60});
    windows.decide(first, 0, 50);
    windows.decide(first, 1, 60);
    windows.decide(first, 2, 70);
    windows.take(first);
    const std::uint64_t second = windows.publish({70, 80});
    REQUIRE(windows.table().truncate(windows.slot(), 1));
    CHECK(windows.due(second, 0).due == Due::never);
    CHECK(windows.due(second, 1).due == Due::never);
    const std::uint64_t third = windows.publish({50, 60, 70}, 1);
    windows.decide(second, 0, -1, DecisionError::voided);
    CHECK(windows.due(third, 0).due == Due::later);
    windows.decide(second, 1, -1, DecisionError::voided);
    CHECK(windows.due(third, 0).due == Due::now);
    CHECK(windows.due(third, 0).outputs == 1);
}

TEST_CASE("a window that contradicts itself is never due") {
    Windows windows;
    const std::uint64_t step = windows.publish({3, 50, 60});
    windows.decide(step, 0, 50);
    proto::ScheduleColumn& column = windows.published(step, 1);
    SECTION("more rows back than there are columns") {
        column.row = 1000;
    }
    SECTION("another sequence's head") {
        column.row = 2;
    }
    SECTION("not its ticket") {
        column.ticket += 1;
    }
    SECTION("a head that is no head") {
        windows.published(step, 0).row = 1;
    }
    CHECK(windows.due(step, 1).due == Due::broken);
}
