// Steps that some ranks send lean and others as rows bring the tokens that rows bring, whoever dies before
// all of it is there. Hosts' writers send lean here as GPUs' do.
#include <catch2/catch.hpp>
#include <csignal>
#include <thread>

#include "daemon/worker/column_decider.h"
#include "daemon/worker/session_view.h"
#include "proto/lean_part.h"
#include "sampler/workspace.h"
#include "shm/segment.h"
#include "testing/daemon_process.h"
#include "testing/small_engine.h"
#include "tests/daemon/attached_view.h"
#include "tests/daemon/lean_deaths.h"

using namespace croupier;
using namespace croupier::testing;

namespace {

constexpr std::uint32_t kVocab = 26170;

EngineShape shape_of(std::uint32_t tp) {
    EngineShape shape;
    shape.vocab = kVocab;
    shape.tp = tp;
    shape.max_logprobs = 5;
    shape.by_device = true;
    return shape;
}

// A rank for each bit.
void send_lean(SmallEngine& engine, std::uint32_t tp, std::uint32_t lean_ranks) {
    for (std::uint32_t rank = 0; rank < tp; ++rank) engine.send_lean(rank, (lean_ranks >> rank & 1U) != 0);
}

// What they ask of a row differs: some are drawn where it is, of some all of it stands there.
std::vector<client::Sequence> all_kinds() {
    std::vector<client::Sequence> all;
    const auto add = [&all](auto change) {
        client::Sequence made = SmallEngine::sequence(all.size() + 1, kVocab);
        change(made);
        all.push_back(std::move(made));
    };
    const auto as_it_is = [](client::Sequence&) {};
    const auto plain = [](client::Sequence& of) {
        of.params.top_k = 0;
        of.params.top_p = 1.0;
        of.params.repetition_penalty = 1.0;
        of.params.frequency_penalty = of.params.presence_penalty = 0.0;
        of.params.flags |= CROUPIER_NO_LOGPROB;
        of.bias.clear();
    };
    add(as_it_is);
    add(plain);
    add([](client::Sequence& of) { of.params.typical_p = 0.9; });
    add(plain);
    add([](client::Sequence& of) { of.params.top_n_sigma = 2.0; });
    add([](client::Sequence& of) { of.params.mirostat = 2; });
    add([](client::Sequence& of) { of.params.logprobs = 5; });
    add(as_it_is);
    return all;
}

proto::SliceFormat format_of(const shm::Segment& segment, std::uint64_t step, std::uint32_t rank) {
    return segment.ready(segment.slot_of(step), rank).format;
}

}  // namespace

TEST_CASE("ranks may send a step each in its own way, and another one otherwise") {
    const DaemonProcess daemon(GENERATE("{count: 1}", "{count: 3, wait: spin}"));
    EngineShape shape = shape_of(GENERATE(2U, 3U));
    shape.masked = GENERATE(false, true);
    shape.summaries = GENERATE(false, true);
    if (GENERATE(false, true)) order_blocks(shape);
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    for (const auto& sequence : all_kinds()) engine.admit(sequence);
    const std::uint32_t ways = 1U << shape.tp;
    for (std::uint32_t step = 0; step < 2 * ways; ++step) {
        send_lean(engine, shape.tp, step % ways);
        engine.step();
        const auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_only);
        REQUIRE(segment);
        for (std::uint32_t rank = 0; rank < shape.tp; ++rank) {
            const bool lean = format_of(segment.value(), step, rank) == proto::SliceFormat::lean;
            CHECK(lean == ((step % ways >> rank & 1U) != 0));
        }
    }
}

TEST_CASE("a host's writer sends rows where lean steps are offered") {
    const DaemonProcess daemon(kTwoSamplers);
    EngineShape shape = shape_of(1);
    shape.by_device = false;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    engine.admit(8);
    engine.steps(3);
    const auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_only);
    REQUIRE(segment);
    CHECK(segment.value().geometry().offered_lean_blocks == proto::kUsualLeanBlocks / 2);
    CHECK(format_of(segment.value(), 2, 0) == proto::SliceFormat::full_tiles);
}

TEST_CASE("where lean steps are offered ranks send them together or not at all") {
    const DaemonProcess daemon(kTwoSamplers);
    EngineShape shape = shape_of(2);
    shape.by_device = false;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    for (const auto& sequence : all_kinds()) engine.admit(sequence);
    for (std::uint32_t step = 0; step < 12; ++step) {
        send_lean(engine, shape.tp, step % 4);
        // Who comes anew is ready for nothing until it says so.
        const bool anew = step / 4 == 1;
        if (anew) engine.attach_writers();
        engine.step();
        const auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_only);
        REQUIRE(segment);
        const bool lean = step % 4 == 3 && !anew;
        for (std::uint32_t rank = 0; rank < shape.tp; ++rank)
            CHECK((format_of(segment.value(), step, rank) == proto::SliceFormat::lean) == lean);
    }
}

// A daemon's sampler stands still, and this process looks at its columns instead.
TEST_CASE("a lean step that is withdrawn while it is decided is left alone, whatever comes instead") {
    DaemonProcess daemon("{count: 1, heartbeat_timeout_ms: 60000}");
    EngineShape shape = shape_of(2);
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    for (const auto& sequence : all_kinds()) engine.admit(sequence);
    engine.steps(2);
    ::kill(daemon.sampler_pid(0), SIGSTOP);
    REQUIRE(eventually([&] { return is_stopped(daemon.sampler_pid(0)); }));
    send_lean(engine, shape.tp, GENERATE(1U, 3U));
    const std::uint64_t number = engine.submit();
    engine.write(number);

    proto::StateTotals totals{};
    auto view = testing::attached_view(engine.segment_path(), totals);
    REQUIRE(view);
    daemon::SessionView& session = *view.value();
    daemon::CheckedStep step;
    REQUIRE(daemon::check_record(session.segment(), number, step) == proto::DecisionError::none);
    sampler::Workspace workspace(kVocab);
    const daemon::PreparedRaces races;
    const auto is_left = [&] { return daemon::decide_column(session, step, 0, {}, races, workspace).left; };
    // Drawn where it is, or asked for.
    (void)is_left();
    engine.detach_writers();
    engine.attach_writers();
    CHECK(is_left());
    // It says what it sends before it has laid anything.
    send_lean(engine, shape.tp, GENERATE(0U, 1U, 3U));
    for (std::uint32_t rank = 0; rank < shape.tp; ++rank) {
        engine.begin(rank, number);
        CHECK(is_left());
    }
    ::kill(daemon.sampler_pid(0), SIGCONT);
    engine.write_if_wanted();
    engine.collect();
    engine.steps(2);
}

TEST_CASE("a session is resumed by libraries that know of no offer, and theirs by those that do") {
    const DaemonProcess daemon(kTwoSamplers);
    EngineShape shape = shape_of(1);
    shape.by_device = false;
    const bool offered = GENERATE(true, false);
    shape.rows = !offered;
    Streams before;
    {
        SmallEngine engine(daemon.endpoint(), "engine", shape);
        engine.admit(4);
        engine.steps(3);
        before = engine.streams();
    }
    shape.rows = offered;
    shape.resume = true;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    CHECK(engine.session().resumed());
    CHECK(engine.streams() == before);
    const auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_only);
    REQUIRE(segment);
    CHECK((segment.value().geometry().lean_room() != 0) == offered);
    engine.send_lean(0, offered);
    engine.steps(3);
}

TEST_CASE("a session that fits without what it offers is opened without it") {
    EngineShape shape = shape_of(1);
    shape.by_device = false;
    shape.batch = 32;
    proto::Geometry geometry;
    geometry.vocab = kVocab;
    geometry.max_batch = shape.batch;
    geometry.slots = shape.steps_in_flight;
    geometry.max_sequences = shape.max_sequences;
    geometry.max_length = shape.max_length;
    geometry.max_logprobs = shape.max_logprobs;
    proto::fill_even_shards(geometry);
    const std::uint64_t rows = proto::layout_of(geometry).total_bytes;
    const bool fits = GENERATE(true, false);
    const DaemonProcess daemon(
        kTwoSamplers, "sessions: {max_segment_bytes: " + std::to_string(fits ? 2 * rows : rows + 4096) + "}");
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    const auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_only);
    REQUIRE(segment);
    CHECK((segment.value().geometry().lean_room() != 0) == fits);
    if (!fits) CHECK(segment.value().layout().total_bytes == rows);
}

TEST_CASE("steps in flight that ranks send each in its own way are decided in their order") {
    const DaemonProcess daemon(kTwoSamplers);
    EngineShape shape = shape_of(2);
    shape.steps_in_flight = 4;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    for (const auto& sequence : all_kinds()) engine.admit(sequence);
    for (std::uint32_t round = 0; round < 8; ++round) {
        for (std::uint32_t i = 0; i < shape.steps_in_flight; ++i) engine.submit();
        for (std::uint32_t i = 0; i < shape.steps_in_flight; ++i) {
            send_lean(engine, shape.tp, (round + i) % 4);
            engine.write();
            engine.collect();
        }
    }
}

TEST_CASE("a writer that leaves before it has answered is followed by one that sends otherwise") {
    const DaemonProcess daemon(kTwoSamplers);
    EngineShape shape = shape_of(2);
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    for (const auto& sequence : all_kinds()) engine.admit(sequence);
    for (std::uint32_t round = 0; round < 24; ++round) {
        send_lean(engine, shape.tp, round % 4);
        const std::uint64_t step = engine.submit();
        engine.write(step);
        // Anywhere between its first wish and its last.
        std::this_thread::sleep_for(std::chrono::microseconds(40 * round));
        engine.detach_writers();
        engine.attach_writers();
        send_lean(engine, shape.tp, round / 4 % 4);
        engine.write_if_wanted();
        engine.collect();
    }
}

TEST_CASE("samplers and the daemon die while ranks' rows are awaited: the same tokens") {
    DaemonProcess daemon(kTwoSamplers);
    EngineShape shape = shape_of(2);
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    for (const auto& sequence : all_kinds()) engine.admit(sequence);
    for (std::uint32_t round = 0; round < 12; ++round) {
        send_lean(engine, shape.tp, 1 + round % 2);
        engine.submit();
        engine.write();
        std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
        kill_in_round(daemon, round);
        engine.collect();
        REQUIRE(eventually([&] { return daemon.await_ready(); }));
    }
}
