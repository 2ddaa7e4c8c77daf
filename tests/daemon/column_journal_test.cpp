// What samplers keep of the columns and steps that they decide, read from outside while they live and after.
#include "shm/column_journal.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "sampler/workspace.h"
#include "testing/daemon_process.h"
#include "testing/session_files.h"
#include "testing/small_engine.h"

using namespace croupier;
using namespace croupier::testing;
using shm::JournalPart;
using shm::JournalReader;

namespace {

// Reads on until so many steps were kept with their columns: a sampler keeps a column after it has announced
// it.
JournalPart read_steps(JournalReader& reader, const shm::Plane& plane, std::size_t steps) {
    JournalPart all;
    REQUIRE(eventually([&] {
        const JournalPart part = reader.read(plane);
        all.columns.insert(all.columns.end(), part.columns.begin(), part.columns.end());
        all.steps.insert(all.steps.end(), part.steps.begin(), part.steps.end());
        all.lost += part.lost;
        std::uint64_t columns = 0;
        for (const auto& step : all.steps) columns += step.columns;
        return all.steps.size() >= steps && all.columns.size() >= columns;
    }));
    std::sort(all.steps.begin(), all.steps.end(),
              [](const auto& a, const auto& b) { return a.step < b.step; });
    return all;
}

std::uint64_t session_id(const SmallEngine& engine) {
    return need(shm::Segment::attach(engine.segment_path(), shm::Access::read_only)).id();
}

client::Session two_ranks(const DaemonProcess& daemon) {
    client::OpenOptions options;
    options.dtype = CROUPIER_BF16;
    const std::string endpoint = daemon.endpoint();
    options.endpoint = endpoint.c_str();
    options.name = "engine";
    options.vocab = 2048;
    options.tp = 2;
    options.max_batch = 1;
    options.max_sequences = 1;
    return client::Session(options);
}

}  // namespace

TEST_CASE("samplers record every column and every step, with their times in order") {
    const auto samplers = GENERATE(std::string(kTwoSamplers),
                                   std::string("{count: 1, threads_per_sampler: 2, wait: adaptive}"));
    const DaemonProcess daemon(samplers);
    const shm::Plane plane = daemon.plane();
    JournalReader reader(plane, JournalReader::From::oldest);
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(8);
    constexpr std::uint64_t kSteps = 6;
    engine.steps(kSteps);
    const JournalPart kept = read_steps(reader, plane, kSteps);
    CHECK(kept.lost == 0);
    CHECK(kept.columns.size() == 8 * kSteps);
    std::set<std::pair<std::uint64_t, std::uint32_t>> columns;
    std::map<std::uint64_t, std::uint64_t> last_end;
    for (const auto& [sampler, thread, column] : kept.columns) {
        INFO("step " << column.step << ", column " << column.column);
        CHECK(columns.emplace(column.step, column.column).second);
        CHECK(column.session_id == session_id(engine));
        CHECK(column.sequence_uid == column.column + 1U);
        CHECK(column.error == 0);
        CHECK(column.path > 0);
        CHECK(column.path < static_cast<std::uint8_t>(request::DecisionPath::count_));
        CHECK((column.blocks == 16 && column.blocks_read > 0));
        CHECK((column.ready_ns > 0 && column.begin_ns >= column.ready_ns && column.duration_ns > 0));
        std::uint64_t& end = last_end[column.step];
        end = std::max(end, column.begin_ns + column.duration_ns);
    }
    REQUIRE(kept.steps.size() == kSteps);
    for (std::uint64_t number = 0; number < kSteps; ++number) {
        const proto::StepRecord& step = kept.steps[number];
        CHECK((step.step == number && step.session_id == session_id(engine)));
        CHECK((step.columns == 8 && step.slots == 2));
        CHECK((0 < step.published_ns && step.published_ns <= step.ready_ns));
        CHECK((step.ready_ns < step.commit_ns && step.commit_ns == last_end[number]));
        if (number < 2) {
            CHECK(step.before_taken_ns == 0);
            continue;
        }
        CHECK(step.before_taken_ns >= kept.steps[number - 2].commit_ns);
        CHECK(step.before_taken_ns <= step.published_ns);
    }
}

TEST_CASE(
    "a step's record names the rank whose logits came last, and for how long only that rank was missing") {
    const DaemonProcess daemon("{count: 1, wait: spin}");
    client::Session session = two_ranks(daemon);
    client::Sequence sequence;
    sequence.uid = 1;
    sequence.prompt = {1, 2, 3};
    session.add(sequence);
    const shm::Plane plane = daemon.plane();
    JournalReader reader(plane, JournalReader::From::now);
    const croupier_column column = croupier_column_of(1);
    const std::vector<std::uint16_t> row(1024, 0x40C0);
    for (const std::uint32_t late : {1U, 0U}) {
        const std::uint64_t step = session.submit({&column, 1});
        for (const std::uint32_t rank : {1 - late, late}) {
            auto writer = need(gpu_writer::RankWriter::attach(session.segment_path(), rank));
            writer.write_column(step, 0, row.data());
            need(writer.publish_all(step));
            // The sampler has seen that one is there and the other is not.
            const auto& beat = plane.header().samplers[0].heartbeat_ns;
            for (int beats = 0; beats < 2 && rank != late; ++beats) {
                const std::uint64_t seen = beat.load();
                REQUIRE(eventually([&] { return beat.load() != seen; }));
            }
        }
        REQUIRE(session.wait(20000));
        const proto::StepRecord kept = read_steps(reader, plane, 1).steps[0];
        CHECK(kept.last_rank == late + 1);
        CHECK(kept.last_rank_late_ns > 0);
        CHECK(kept.last_rank_late_ns < kept.ready_ns - kept.published_ns);
    }
}

TEST_CASE("a step of a session with one rank records no last rank") {
    const DaemonProcess daemon;
    EngineShape shape;
    shape.tp = 1;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    engine.admit(2);
    engine.steps(2);
    const shm::Plane plane = daemon.plane();
    JournalReader reader(plane, JournalReader::From::oldest);
    for (const auto& step : read_steps(reader, plane, 2).steps) CHECK(step.last_rank == 0);
}

TEST_CASE("a column that fails or is void is recorded with its error") {
    const DaemonProcess daemon("{count: 1, wait: adaptive}");
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(3);
    const shm::Plane plane = daemon.plane();
    JournalReader reader(plane, JournalReader::From::now);
    engine.submit();
    engine.truncate(2, 0);
    engine.write();
    engine.collect();
    const JournalPart kept = read_steps(reader, plane, 1);
    REQUIRE(kept.columns.size() == 3);
    std::map<std::uint64_t, std::uint8_t> errors;
    for (const auto& column : kept.columns) errors[column.record.sequence_uid] = column.record.error;
    CHECK(errors == std::map<std::uint64_t, std::uint8_t>{
                        {1, 0}, {2, static_cast<std::uint8_t>(proto::DecisionError::voided)}, {3, 0}});
}

TEST_CASE("a sampler's successor continues its journal, and a dead daemon's journals can still be read") {
    DaemonProcess daemon("{count: 1, wait: adaptive}");
    SmallEngine engine(daemon.endpoint(), "engine");
    engine.admit(4);
    engine.steps(2);
    {
        const shm::Plane plane = daemon.plane();
        JournalReader reader(plane, JournalReader::From::oldest);
        CHECK(read_steps(reader, plane, 2).columns.size() == 8);
        const pid_t dead = daemon.sampler_pid(0);
        ::kill(dead, SIGKILL);
        REQUIRE(eventually([&] { return daemon.sampler_pid(0) != dead && daemon.await_ready(); }));
        engine.steps(2);
        const JournalPart after = read_steps(reader, plane, 2);
        CHECK((after.columns.size() == 8 && after.lost == 0));
    }
    daemon.kill_now();
    const auto left =
        need(shm::Plane::attach(daemon.shm_directory(), daemon.instance(), shm::Access::read_only));
    JournalReader reader(left, JournalReader::From::oldest);
    CHECK(reader.read(left).columns.size() == 16);
    daemon.start();
    REQUIRE(daemon.await_ready());
    engine.steps(1);
    // The daemon's successor has a plane of its own, whose journal is empty at first.
    const shm::Plane plane = daemon.plane();
    JournalReader next(plane, JournalReader::From::oldest);
    CHECK(read_steps(next, plane, 1).columns.size() == 4);
}
