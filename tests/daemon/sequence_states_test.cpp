// What samplers derive from token logs: bounded, freed, seen from outside, and in one sampler only.
#include "daemon/worker/sequence_states.h"

#include <catch2/catch.hpp>
#include <vector>

#include "shm/sequence_table.h"
#include "shm/snapshot.h"
#include "testing/daemon_process.h"
#include "testing/session_files.h"
#include "testing/small_engine.h"

using namespace croupier;
using namespace croupier::testing;
using daemon::SequenceStates;

namespace {

constexpr std::uint32_t kSequences = 16;
constexpr std::uint32_t kFirst = 1;  // admission to a slot

proto::SamplingParams penalised() {
    proto::SamplingParams params;
    params.repetition_penalty = 1.1;
    params.dry_multiplier = 0.8;
    return params;
}

struct Fixture {
    explicit Fixture(std::uint32_t threads = 1) : states(1000, 64, kSequences, threads, totals) {}

    void use(std::uint32_t slot, std::uint64_t look, std::size_t thread = 0) {
        states.note_look(look);
        const std::vector<std::int32_t> prompt = {1, 2, 3, 1, 2};
        auto& state = states.of(thread, {slot, kFirst, 0}, penalised(), {}, {});
        if (!state.follow(prompt, {})) FAIL("slot " << slot);
        states.account(thread, slot, false);
    }
    bool knows(std::uint32_t slot, std::size_t thread = 0) const {
        return states.knows(thread, slot, kFirst);
    }

    proto::StateTotals totals{};
    SequenceStates states;
};

shm::NewSequence live_sequence(std::uint64_t uid) {
    static const std::vector<std::int32_t> prompt = {1, 2, 3};
    shm::NewSequence sequence;
    sequence.uid = uid;
    sequence.prompt = prompt;
    return sequence;
}

void sweep_all(Fixture& fixture, const shm::Segment& segment, std::uint32_t first_lane) {
    for (std::uint32_t i = 0; i < kSequences; ++i) fixture.states.sweep(segment, first_lane);
}

struct Held {
    std::uint64_t states = 0;
    std::uint64_t bytes = 0;
    std::uint64_t dropped = 0;
};

Held held(const DaemonProcess& daemon) {
    const auto snapshot = need(shm::observe(daemon.shm_directory(), daemon.instance()));
    Held sum;
    for (const auto& sampler : snapshot.samplers) {
        sum.states += sampler.states;
        sum.bytes += sampler.state_bytes;
        sum.dropped += sampler.states_dropped;
    }
    return sum;
}

}  // namespace

TEST_CASE("states that are used least recently are dropped first, of whichever session, and counted") {
    Fixture first;
    Fixture second;
    for (std::uint32_t slot = 0; slot < 8; ++slot) {
        first.use(slot, std::uint64_t{2} * slot);
        second.use(slot, std::uint64_t{2} * slot + 1);
    }
    first.use(0, 100);
    const std::uint64_t one = first.totals.bytes.load() / 8;
    CHECK(one > sizeof(sampler::SequenceState));
    const std::vector<SequenceStates*> all = {&first.states, &second.states};
    drop_least_recent(all, 16 * one);
    CHECK(first.totals.dropped.load() + second.totals.dropped.load() == 0);
    drop_least_recent(all, 8 * one);  // and an eighth more
    CHECK(first.knows(0));
    CHECK_FALSE(first.knows(4));
    CHECK_FALSE(second.knows(4));
    CHECK(first.knows(7));
    CHECK(second.knows(5));
    CHECK(first.totals.dropped.load() + second.totals.dropped.load() == 9);
    CHECK(first.totals.states.load() + second.totals.states.load() == 7);
    CHECK(first.totals.bytes.load() + second.totals.bytes.load() == 7 * one);
}

TEST_CASE("states of finished sequences, and of those that another lane has derived since, are freed") {
    proto::Geometry geometry = small_geometry();
    geometry.max_sequences = kSequences;
    SessionFiles files(geometry);
    shm::SequenceTable table(files.segment);
    Fixture fixture(2);
    for (std::uint64_t slot = 0; slot < 4; ++slot) {
        REQUIRE(need(table.add(live_sequence(slot + 100))) == slot);
        fixture.use(static_cast<std::uint32_t>(slot), 1, slot % 2);
    }
    constexpr std::uint32_t kFirstLane = 6;
    files.segment.sequence(1).owner = kFirstLane + 1 + 1;
    files.segment.sequence(2).owner = kFirstLane + 1 + 1;  // but thread 0 has it
    sweep_all(fixture, files.segment, kFirstLane);
    CHECK(fixture.knows(0));
    CHECK(fixture.knows(1, 1));
    CHECK_FALSE(fixture.knows(2));
    table.remove(0);
    table.remove(3);
    REQUIRE(need(table.add(live_sequence(500))) == 3);
    sweep_all(fixture, files.segment, kFirstLane);
    CHECK_FALSE(fixture.knows(0));
    CHECK_FALSE(fixture.knows(3, 1));
    CHECK(fixture.totals.states.load() == 1);
    CHECK(fixture.totals.dropped.load() == 0);
}

TEST_CASE(
    "a state that takes a long log over in parts is spared, and one that was robbed is not, however idle") {
    proto::Geometry geometry = small_geometry();
    geometry.max_sequences = kSequences;
    SessionFiles files(geometry);
    shm::SequenceTable table(files.segment);
    Fixture fixture(2);
    REQUIRE(need(table.add(live_sequence(100))) == 0);
    fixture.use(0, 1, 0);
    fixture.use(0, 1, 1);
    fixture.states.account(1, 0, true);
    constexpr std::uint32_t kFirstLane = 6;
    auto& entry = files.segment.sequence(0);
    entry.owner = kFirstLane + 1 + 2;  // of another sampler
    // What a robbed one knows lags behind, too.
    entry.length = 1000;
    sweep_all(fixture, files.segment, kFirstLane);
    CHECK_FALSE(fixture.knows(0, 0));
    CHECK(fixture.knows(0, 1));
    fixture.states.account(1, 0, false);
    sweep_all(fixture, files.segment, kFirstLane);
    CHECK_FALSE(fixture.knows(0, 1));
}

TEST_CASE("a state is cut to what the next revision kept, and compares its log behind any other") {
    std::vector<std::int32_t> log(50);
    for (std::int32_t place = 0; place < 50; ++place) log[static_cast<std::size_t>(place)] = place;
    Fixture fixture;
    const auto follow = [&](std::uint32_t revision, std::optional<std::uint32_t> kept) {
        auto& state = fixture.states.of(0, {3, kFirst, revision, kept}, penalised(), {}, {});
        REQUIRE(state.follow(std::span(log).first(5), std::span(log).subspan(5)));
        for (std::uint32_t token = 0; token < 100; ++token) {
            const bool stands = std::find(log.begin(), log.end(), token) != log.end();
            if (state.seen(token) != stands) FAIL("token " << token);
        }
    };
    follow(7, 0);
    // Forty places before the end.
    log[9] = 90;
    follow(8, 9);
    log[30] = 91;
    follow(9, std::nullopt);
    log[20] = 92;
    follow(11, 20);  // what revision 10 kept is not known
    log[3] = 93;     // of the prompt, as a broken client might
    follow(12, 3);
    log[6] = 94;
    follow(0, 6);
}

TEST_CASE("a session that ends takes its bytes out of the sampler's count") {
    proto::StateTotals totals{};
    {
        SequenceStates states(1000, 64, kSequences, 1, totals);
        states.of(0, {3, 1, 0}, penalised(), {}, {});
        states.account(0, 3, false);
        CHECK(totals.bytes.load() > 0);
    }
    CHECK(totals.bytes.load() == 0);
    CHECK(totals.states.load() == 0);
}

TEST_CASE("a sequence's state stays in one sampler while batches change, and goes when it finishes") {
    DaemonProcess daemon("{count: 3, wait: adaptive}");
    SmallEngine engine(daemon.endpoint(), "engine");
    for (std::uint64_t uid = 1; uid <= 8; ++uid) {
        client::Sequence sequence = SmallEngine::sequence(uid, 1000);
        sequence.params.repetition_penalty = 1.2;
        engine.admit(sequence);
    }
    engine.steps(20);
    // One that was late for a moment may have lost a sequence; what it had goes with a sweep.
    REQUIRE(eventually([&] { return held(daemon).states == 8; }));
    CHECK(held(daemon).bytes > 8 * sizeof(sampler::SequenceState));
    CHECK(held(daemon).bytes < 800'000);
    CHECK(held(daemon).dropped == 0);
    for (std::uint64_t uid = 1; uid <= 8; ++uid) engine.session().finish(uid);
    CHECK(eventually([&] { return held(daemon).states == 0 && held(daemon).bytes == 0; }));
}

TEST_CASE("states beyond samplers.max_state_bytes are dropped, and the tokens stay the same") {
    EngineShape shape;
    shape.max_length = 40'000;
    // A megabyte holds one history of twelve thousand tokens, not two: each decision derives its own anew.
    DaemonProcess daemon("{count: 1, max_state_bytes: 1MiB}");
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    for (std::uint64_t uid = 1; uid <= 3; ++uid) {
        client::Sequence sequence = SmallEngine::sequence(uid, 1000);
        sequence.params.repetition_penalty = 1.2;
        sequence.params.dry_multiplier = 0.8;
        for (std::int32_t i = 0; i < 12'000; ++i) sequence.prompt.push_back(i * (i / 7 + 1) % 1000);
        engine.admit(sequence);
    }
    engine.steps(4);  // which compare with the reference
    CHECK(eventually([&] { return held(daemon).bytes <= std::uint64_t{1024} * 1024; }));
    CHECK(held(daemon).dropped >= 6);
}
