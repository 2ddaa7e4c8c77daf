// A row of a window between two writers of its step.
#include "daemon/worker/column_decider.h"

#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <vector>

#include "gpu_writer/rank_writer.h"
#include "proto/lean_part.h"
#include "shm/schedule_publisher.h"
#include "shm/sequence_table.h"
#include "shm/step_claims.h"
#include "testing/session_files.h"
#include "tests/daemon/attached_view.h"

using namespace croupier;
using proto::DecisionError;
using proto::RowInput;
using testing::need;

namespace {

constexpr std::uint32_t kRows = 2;

proto::Geometry lean_geometry() {
    proto::Geometry geometry = testing::small_geometry();
    geometry.lean_blocks = proto::kLeanGranule;
    return geometry;
}

// A lean step with one window, whose rows have the greedy tokens 50 and 51.
class LeanWindow {
  public:
    LeanWindow() : client_(need(shm::SchedulePublisher::attach(files_.segment))) {
        const std::vector<std::int32_t> prompt = {1, 2};
        shm::NewSequence sequence;
        sequence.uid = 7;
        sequence.prompt = prompt;
        sequence.params.temperature = 0.0;
        shm::SequenceTable table(files_.segment);
        std::vector<proto::ScheduleColumn> asked(kRows);
        asked[0].sequence_slot = need(table.add(sequence));
        asked[0].sequence_uid = sequence.uid;
        asked[1] = asked[0];
        asked[1].row = 1;
        asked[1].position = asked[1].ticket = 1;
        need(client_.publish(asked, proto::kWindows));
        REQUIRE(daemon::check_record(files_.segment, 0, step_) == DecisionError::none);
        for (std::uint32_t row = 0; row < kRows; ++row) {
            constexpr std::uint16_t kLikely = 0x4280;  // 64 as a bf16
            rows_.emplace_back(files_.segment.geometry().vocab)[50 + row] = kLikely;
        }
    }

    // Another one has the rank from now on.
    void change_writer() {
        writer_.reset();
        writer_.emplace(need(gpu_writer::RankWriter::attach(files_.segment.path(), 0)));
    }
    void send(std::int32_t draft) {
        need(writer_->send(0, std::vector<const void*>{rows_[0].data(), rows_[1].data()},
                           std::vector<RowInput>{{RowInput::kAny, 0}, {draft, 0}}));
    }
    // As a writer does before it announces a part of the step.
    void tell(std::int32_t draft) { files_.segment.inputs(0, 0)[1].store(RowInput{draft, 0}.pack()); }

    // What a sampler makes of a row that it has claimed.
    daemon::DecidedColumn decide(std::uint32_t row) {
        return daemon::decide_column(*view_, step_, row, {0, 0}, races_, workspace_);
    }
    void commit(std::uint32_t row, const proto::Decision& decision) {
        const shm::StepClaims claims(files_.segment, 0);
        REQUIRE(claims.try_claim(row, 1));
        claims.commit(row, kRows, decision);
    }

  private:
    testing::SessionFiles files_{lean_geometry()};
    shm::SchedulePublisher client_;
    proto::StateTotals totals_{};
    std::unique_ptr<daemon::SessionView> view_ = need(testing::attached_view(files_.segment.path(), totals_));
    std::optional<gpu_writer::RankWriter> writer_;
    daemon::CheckedStep step_;
    std::vector<std::vector<std::uint16_t>> rows_;
    daemon::PreparedRaces races_;
    sampler::Workspace workspace_{files_.segment.geometry().vocab};
};

}  // namespace

TEST_CASE("a row is not rejected for what a writer says of it before it has sent the row") {
    LeanWindow window;
    window.change_writer();
    window.send(50);
    const auto head = window.decide(0);
    REQUIRE_FALSE(head.deferred);
    REQUIRE(head.decision.token == 50);
    window.commit(0, head.decision);
    window.change_writer();
    window.tell(60);
    CHECK(window.decide(1).deferred);
    SECTION("if it sends that, the row is rejected") {
        window.send(60);
        const auto row = window.decide(1);
        CHECK_FALSE(row.deferred);
        CHECK(row.decision.error == DecisionError::rejected);
    }
    SECTION("if another one sends it with the right draft, it is decided") {
        window.change_writer();
        CHECK(window.decide(1).deferred);
        window.send(50);
        const auto row = window.decide(1);
        CHECK_FALSE(row.deferred);
        CHECK(row.decision.error == DecisionError::none);
        CHECK(row.decision.token == 51);
        CHECK(row.decision.position == 1);
    }
}
