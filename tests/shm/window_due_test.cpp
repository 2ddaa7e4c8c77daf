// Which row of a window is due, also where a writer that was replaced has drafted it anew.
#include <catch2/catch.hpp>
#include <vector>

#include "shm/column_due.h"
#include "shm/sequence_table.h"
#include "test_session.h"

using namespace croupier;
using namespace croupier::shm;

namespace {

// One step, of one window of four rows.
class Window {
  public:
    Window() : segment_(session_.open()), publisher_(SchedulePublisher::attach(segment_).value()) {
        const std::vector<std::int32_t> prompt = {1, 2, 3};
        NewSequence sequence;
        sequence.uid = 77;
        sequence.prompt = prompt;
        SequenceTable table(segment_);
        asked_.resize(kRows);
        for (std::uint32_t row = 0; row < kRows; ++row) {
            asked_[row].sequence_uid = 77;
            asked_[row].row = static_cast<std::uint16_t>(row);
            asked_[row].ticket = row;
        }
        const std::uint32_t slot = table.add(sequence).value();
        for (auto& asked : asked_) {
            asked.sequence_slot = slot;
            asked.revision = segment_.sequence(slot).revision(std::memory_order_relaxed).number;
        }
        REQUIRE(publisher_.publish(asked_, proto::kWindows).value() == 0);
    }

    void draft(std::uint32_t row, std::int32_t token, std::uint32_t parent) {
        for (std::uint32_t rank = 0; rank < segment_.geometry().tp; ++rank)
            segment_.inputs(0, rank)[row].store(proto::RowInput{token, parent}.pack());
    }
    DueColumn due(std::uint32_t row) { return due_of(segment_, 0, row, asked_[row]); }
    void decide(std::uint32_t row, std::int32_t token,
                proto::DecisionError error = proto::DecisionError::none) {
        proto::Decision decision;
        decision.sequence_uid = 77;
        decision.token = token;
        decision.position = due(row).outputs;
        decision.error = error;
        if (due(row).due == Due::rejected) decision.error = proto::DecisionError::rejected;
        const StepClaims claims(segment_, 0);
        REQUIRE(claims.try_claim(row, 5));
        claims.commit(row, kRows, decision);
    }

    static constexpr std::uint32_t kRows = 4;

  private:
    TestSession session_;
    Segment segment_;
    SchedulePublisher publisher_;
    std::vector<proto::ScheduleColumn> asked_;
};

bool is_due(Window& window, std::uint32_t row, std::uint32_t outputs) {
    const DueColumn found = window.due(row);
    return found.due == Due::now && found.outputs == outputs;
}

}  // namespace

TEST_CASE("rows of a tree are due one after another, the first of those that are alike") {
    Window window;
    window.draft(0, proto::RowInput::kAny, 0);
    window.draft(1, 9, 0);
    window.draft(2, 5, 0);
    window.draft(3, 5, 0);
    CHECK(window.due(1).due == Due::later);
    window.decide(0, 5);
    CHECK(window.due(1).due == Due::rejected);
    // Until the one before it is answered.
    CHECK(window.due(2).due == Due::later);
    window.decide(1, 0);
    CHECK(is_due(window, 2, 1));
    CHECK(window.due(3).due == Due::later);
    window.decide(2, 6);
    CHECK(window.due(3).due == Due::rejected);
}

TEST_CASE("after an error the rest of a tree is void, also what is like the row that has it") {
    Window window;
    window.draft(0, proto::RowInput::kAny, 0);
    window.draft(1, 5, 0);
    window.draft(2, 5, 0);
    window.draft(3, 6, 1);
    window.decide(0, 5);
    window.decide(1, -1, proto::DecisionError::nan_logit);
    CHECK(window.due(2).due == Due::never);
    window.decide(2, -1, proto::DecisionError::voided);
    CHECK(window.due(3).due == Due::never);
}

TEST_CASE("no position is decided twice where a writer that was replaced drafts anew") {
    Window window;
    window.draft(0, proto::RowInput::kAny, 0);
    window.draft(1, 5, 0);
    window.decide(0, 5);
    REQUIRE(is_due(window, 1, 1));
    window.decide(1, 6);
    window.draft(1, 9, 0);
    window.draft(2, 5, 0);
    CHECK(window.due(2).due == Due::rejected);
}

TEST_CASE("a row behind one that was decided and drafted anew is rejected") {
    Window window;
    window.draft(0, proto::RowInput::kAny, 0);
    window.draft(1, 5, 0);
    window.draft(2, 6, 1);
    window.decide(0, 5);
    window.decide(1, 6);
    REQUIRE(is_due(window, 2, 2));
    window.decide(2, 7);
    window.draft(3, 7, 2);
    REQUIRE(is_due(window, 3, 3));
    SECTION("from another token") {
        window.draft(1, 9, 0);
        CHECK(window.due(3).due == Due::rejected);
    }
    SECTION("behind another row") {
        window.draft(2, 6, 0);
        CHECK(window.due(3).due == Due::rejected);
    }
    SECTION("of no row") {
        window.draft(2, proto::RowInput::kNone, 0);
        CHECK(window.due(3).due == Due::rejected);
    }
}
