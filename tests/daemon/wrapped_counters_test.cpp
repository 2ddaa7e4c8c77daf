// Sessions whose steps are so many that the words of shared memory that hold their low bits come round: no
// token depends on it.
#include <catch2/catch.hpp>
#include <csignal>
#include <vector>

#include "daemon/worker/step_logits.h"
#include "proto/lean_part.h"
#include "shm/logits_publisher.h"
#include "shm/schedule_publisher.h"
#include "shm/step_claims.h"
#include "testing/daemon_process.h"
#include "testing/moved_counters.h"
#include "testing/session_files.h"
#include "testing/small_engine.h"

using namespace croupier;
using namespace croupier::testing;

namespace {

constexpr std::uint32_t kVocab = 20000;
constexpr std::uint32_t kLarge = 64;  // columns: sent part by part
constexpr std::uint32_t kFewer = 8;

EngineShape shape_of(std::uint32_t tp, bool lean) {
    EngineShape shape;
    shape.vocab = kVocab;
    shape.tp = tp;
    shape.batch = shape.max_sequences = kLarge;
    shape.lean = lean;
    return shape;
}

// Greedy with penalties, a temperature alone, top-p and min-p. No device draws them: a stop token is
// forbidden.
client::Sequence request(std::uint64_t uid) {
    client::Sequence made;
    made.uid = uid;
    for (std::uint64_t i = 0; i < 6; ++i)
        made.prompt.push_back(static_cast<std::int32_t>((uid * 37 + i * 11) % kVocab));
    made.params.seed = uid;
    made.params.min_tokens = 200;
    made.stop_ids = {5, 6};
    made.params.temperature = uid % 4 == 0 ? 0.0 : 1.0;
    if (uid % 4 == 0) made.params.repetition_penalty = 1.3;
    if (uid % 4 == 2) made.params.top_p = 0.95;
    if (uid % 4 == 3) made.params.min_p = 0.02;
    return made;
}

// What samplers ask for more of than a lean part brings.
client::Sequence demanding(std::uint64_t uid) {
    client::Sequence made = request(uid);
    made.params.temperature = 1.0;
    made.params.typical_p = 0.9;
    return made;
}

void move_counters(const DaemonProcess& daemon, const std::string& path, std::uint64_t next) {
    // In between the counters contradict each other, for which the supervisor would close the session.
    daemon.signal(SIGSTOP);
    const auto segment = need(shm::Segment::attach(path, shm::Access::read_write));
    testing::move_counters(segment, next);
    forget_writers(segment);
    daemon.signal(SIGCONT);
}

// The next engine of the same session goes on at this step.
void open_at(const DaemonProcess& daemon, const EngineShape& shape, std::uint64_t next) {
    const std::string path = SmallEngine(daemon.endpoint(), "engine", shape).segment_path();
    move_counters(daemon, path, next);
}

std::size_t decided(const shm::Segment& segment, std::uint64_t step, std::uint32_t columns) {
    const shm::StepClaims claims(segment, step);
    std::size_t count = 0;
    for (std::uint32_t column = 0; column < columns; ++column) {
        if (claims.is_committed(column)) ++count;
    }
    return count;
}

void step_of(SmallEngine& engine, std::uint32_t columns) {
    std::vector<croupier_column> asked;
    for (std::uint64_t uid = 1; uid <= columns; ++uid) asked.push_back({uid, nullptr, 1, 0});
    engine.session().submit(asked);
    engine.write();
    engine.collect_columns(columns);
}

}  // namespace

TEST_CASE("sessions whose steps come round decide as any other, large and small steps in turn") {
    const DaemonProcess daemon;
    const std::uint64_t start = GENERATE(kTagPeriod - 2, (std::uint64_t{1} << 32U) - 2);
    EngineShape shape = shape_of(GENERATE(1U, 2U), GENERATE(false, true));
    open_at(daemon, shape, start);
    shape.resume = true;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    REQUIRE(engine.session().resumed());
    for (std::uint64_t uid = 1; uid <= kLarge; ++uid)
        engine.admit(uid % 5 == 0 ? demanding(uid) : request(uid));
    for (const std::uint32_t columns : {kLarge, kFewer, kFewer, kLarge, kLarge, 1U}) step_of(engine, columns);
}

TEST_CASE("what a slot holds of a lean step 2^28 steps ago decides no column") {
    const DaemonProcess daemon("{count: 2, wait: spin}");
    EngineShape shape = shape_of(GENERATE(1U, 2U), true);
    // Of so many columns no part of a step is told of before the whole: only block requests are left then.
    shape.batch = GENERATE(64U, 20U);
    std::string path;
    {
        SmallEngine engine(daemon.endpoint(), "engine", shape);
        for (std::uint64_t uid = 1; uid <= shape.batch; ++uid) engine.admit(demanding(uid));
        const auto segment = need(shm::Segment::attach(engine.segment_path(), shm::Access::read_only));
        const auto& requests = segment.header().counter(proto::SessionCounter::block_requests);
        for (std::uint32_t slot = 0; slot < shape.steps_in_flight; ++slot) {
            const std::uint64_t before = requests.load();
            step_of(engine, shape.batch);
            REQUIRE(requests.load() > before);
        }
        // Their ready words are overwritten, and nothing else is.
        for (std::uint32_t slot = 0; slot < shape.steps_in_flight; ++slot) step_of(engine, 1);
        for (std::uint64_t uid = 1; uid <= shape.batch; ++uid) engine.finish(uid);
        path = engine.segment_path();
    }
    move_counters(daemon, path, kTagPeriod);
    shape.resume = true;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    REQUIRE(engine.session().resumed());
    const auto segment = need(shm::Segment::attach(path, shm::Access::read_only));
    for (std::uint64_t uid = 1; uid <= shape.batch; ++uid) engine.admit(request(1000 + uid));
    for (std::uint32_t slot = 0; slot < shape.steps_in_flight; ++slot) {
        const std::uint64_t step = engine.submit();
        REQUIRE(step == kTagPeriod + slot);
        daemon.await_idle_samplers();
        CHECK(decided(segment, step, shape.batch) == 0);
        engine.write();
        engine.collect();
    }
}

TEST_CASE("parts of a step that were sent 2^28 steps ago are not sent") {
    proto::Geometry geometry = testing::small_geometry();
    geometry.vocab = kVocab;
    geometry.max_batch = kLarge;
    geometry.tile = proto::kBlockIds;
    geometry.lean_blocks = proto::kLeanGranule;
    proto::fill_even_shards(geometry);
    SessionFiles files(geometry);
    auto writer = need(shm::LogitsPublisher::attach(files.segment, 0));
    const std::vector<proto::ScheduleColumn> columns(kLarge);
    const auto parts_of = [&](std::uint64_t number) {
        daemon::CheckedStep step;
        step.step = number;
        step.slot = files.segment.slot_of(number);
        step.columns = kLarge;
        daemon::SentColumns sent(files.segment, step);
        sent.look();
        return sent.parts();
    };
    for (const std::uint64_t number : {std::uint64_t{0}, kTagPeriod, 16 * kTagPeriod}) {
        testing::move_counters(files.segment, number);
        auto client = need(shm::SchedulePublisher::attach(files.segment));
        REQUIRE(need(client.publish(columns)) == number);
        CHECK(parts_of(number) == 0);
        need(writer.begin(number));
        auto& stamps = files.segment.ready(files.segment.slot_of(number), 0).stamps;
        stamps[0].store(shm::lean_word(files.segment, number, 0).pack());
        stamps[2].store(shm::lean_word(files.segment, number, 0).pack());
        CHECK(parts_of(number) == 5);
        files.segment.release(shm::Role::client);
    }
}
