// A column that samplers died of, decided by one that has not looked at its step.
#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "daemon/worker/step_worker.h"
#include "gpu_writer/rank_writer.h"
#include "proto/lean_part.h"
#include "shm/schedule_publisher.h"
#include "shm/sequence_table.h"
#include "shm/step_claims.h"
#include "testing/session_files.h"
#include "tests/daemon/attached_view.h"

using namespace croupier;
using testing::need;

TEST_CASE("a suspected column is decided from its own row, wherever in the slice that stands") {
    constexpr std::uint32_t kColumns = 3;
    constexpr std::uint32_t kSuspected = 2;
    proto::Geometry geometry = testing::small_geometry();
    geometry.lean_blocks = proto::kLeanGranule;
    geometry.max_windows = GENERATE(0U, 3U);
    testing::SessionFiles files(geometry);
    shm::SequenceTable table(files.segment);
    std::vector<proto::ScheduleColumn> asked(kColumns);
    std::vector<std::vector<std::uint16_t>> rows;
    std::vector<const void*> values;
    for (std::uint32_t column = 0; column < kColumns; ++column) {
        const std::vector<std::int32_t> prompt = {1, 2};
        shm::NewSequence sequence;
        sequence.uid = 100 + column;
        sequence.prompt = prompt;
        sequence.params.temperature = 1.0;
        sequence.params.rng = proto::Rng::vllm;  // reads its whole row
        asked[column].sequence_slot = need(table.add(sequence));
        asked[column].sequence_uid = sequence.uid;
        constexpr std::uint16_t kLikely = 0x4280;  // 64 as a bf16
        rows.emplace_back(geometry.vocab)[100 + column] = kLikely;
    }
    values.reserve(rows.size());
    for (const auto& row : rows) values.push_back(row.data());
    auto client = need(shm::SchedulePublisher::attach(files.segment));
    need(client.publish(asked, 0));
    auto writer = need(gpu_writer::RankWriter::attach(files.segment.path(), 0));
    need(writer.send(0, values, {}));
    shm::StepClaims(files.segment, 0).suspect(kSuspected, kColumns);

    const auto plane = std::make_unique<proto::PlaneHeader>();
    plane->sampler_count = 1;
    daemon::StepWorker worker(*plane, {shm::JournalWriter()}, 0, 1, -1);
    proto::StateTotals totals{};
    const auto view = need(testing::attached_view(files.segment.path(), totals));
    worker.make_room(*view);
    REQUIRE(worker.decide_suspect(*view));
    const proto::Decision decision = files.segment.decisions(0)[kSuspected];
    CHECK(decision.error == proto::DecisionError::none);
    CHECK(decision.token == static_cast<std::int32_t>(100 + kSuspected));
}
