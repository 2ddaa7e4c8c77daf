// Lean steps bring the tokens that rows bring, whatever is asked for beside what was sent, and whoever dies
// before it is there. The engine checks each decision against the reference.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <numeric>

#include "daemon/worker/column_decider.h"
#include "daemon/worker/session_view.h"
#include "proto/lean_part.h"
#include "proto/request_cell.h"
#include "sampler/workspace.h"
#include "shm/block_requests.h"
#include "shm/logits_publisher.h"
#include "shm/segment.h"
#include "shm/step_claims.h"
#include "testing/daemon_process.h"
#include "testing/small_engine.h"
#include "tests/daemon/attached_view.h"
#include "tests/daemon/lean_deaths.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

// Some 300 blocks, of which a column's lean part has room for a third.
constexpr std::uint32_t kVocab = 20000;

EngineShape lean_shape(std::uint32_t tp) {
    EngineShape shape;
    shape.vocab = kVocab;
    shape.tp = tp;
    shape.lean = true;
    return shape;
}

// How often samplers asked for more, over all slots.
std::uint64_t block_requests_of(SmallEngine& engine) {
    const auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_only);
    REQUIRE(segment);
    std::uint64_t posted = 0;
    for (std::uint32_t slot = 0; slot < segment.value().geometry().slots; ++slot)
        posted += segment.value().request_board(slot).posted.load();
    return posted;
}

// Returns when so many columns of the step are decided.
void await_decided(const SmallEngine& engine, std::uint64_t step, std::size_t columns) {
    const auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_only);
    REQUIRE(segment);
    const shm::StepClaims claims(segment.value(), step);
    REQUIRE(eventually([&] {
        std::size_t decided = 0;
        for (std::uint32_t column = 0; column < segment.value().geometry().max_batch; ++column) {
            if (claims.is_committed(column)) ++decided;
        }
        return decided >= columns;
    }));
}

// Controls that read much of a row, each in another way.
std::vector<client::Sequence> demanding() {
    std::vector<client::Sequence> all;
    const auto add = [&all](auto change) {
        client::Sequence made = SmallEngine::sequence(all.size() + 1, kVocab);
        made.params.top_k = 0;
        made.params.top_p = 1.0;
        made.params.temperature = 1.0;
        change(made);
        all.push_back(std::move(made));
    };
    add([](client::Sequence& of) { of.params.top_p = 0.999; });
    add([](client::Sequence& of) { of.params.typical_p = 0.9; });
    add([](client::Sequence& of) { of.params.top_n_sigma = 2.0; });
    add([](client::Sequence& of) { of.params.mirostat = 2; });
    add([](client::Sequence& of) { of.params.xtc_probability = 1.0; });
    add([](client::Sequence& of) { of.params.repetition_penalty = 0.8; });
    add([](client::Sequence& of) { of.params.temperature = 5.0; });
    add([](client::Sequence& of) {
        for (std::int32_t id = 5; id < 60; ++id) of.bias.push_back({id * 331, 1.0F});
    });
    return all;
}

// What a rank's heads of the last step's columns say.
std::vector<proto::SentFlags> flags_of(const shm::Segment& segment, std::uint64_t step, std::uint32_t rank,
                                       std::uint32_t columns) {
    const std::uint32_t slot = segment.slot_of(step);
    const proto::LeanLayout layout = proto::lean_layout_of(segment.geometry(), rank);
    const auto* heads = reinterpret_cast<const proto::LeanHead*>(segment.lean(slot, rank) + layout.heads);
    std::vector<proto::SentFlags> flags;
    for (std::uint32_t column = 0; column < columns; ++column) flags.push_back(heads[column].flags);
    return flags;
}

std::vector<bool> drawn_by(const shm::Segment& segment, std::uint64_t step, std::uint32_t rank,
                           std::uint32_t columns) {
    std::vector<bool> drawn;
    for (const proto::SentFlags flags : flags_of(segment, step, rank, columns))
        drawn.push_back(flags.has(proto::Sent::draw_alone));
    return drawn;
}

// Greedy, or drawn at a temperature alone.
client::Sequence plain(std::uint64_t uid) {
    client::Sequence made = SmallEngine::sequence(uid, kVocab);
    made.params.top_k = 0;
    made.params.top_p = 1.0;
    made.params.repetition_penalty = 1.0;
    made.params.frequency_penalty = made.params.presence_penalty = 0.0;
    made.params.temperature = uid % 3 == 0 ? 0.0 : 0.4 * static_cast<double>(uid);
    made.params.flags |= CROUPIER_NO_LOGPROB;
    made.bias.clear();
    return made;
}

}  // namespace

TEST_CASE("lean steps change no token, whatever the ranks and the samplers") {
    const DaemonProcess daemon(GENERATE("{count: 1}", "{count: 3, wait: spin}"));
    EngineShape shape = lean_shape(GENERATE(1U, 3U));
    shape.masked = GENERATE(false, true);
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    engine.admit(shape.batch);
    engine.steps(20);
}

TEST_CASE("samplers request the blocks that a column lacks, and decide it with them") {
    const DaemonProcess daemon(kTwoSamplers);
    EngineShape shape = lean_shape(GENERATE(1U, 2U));
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    for (const auto& sequence : demanding()) engine.admit(sequence);
    engine.steps(12);
    CHECK(block_requests_of(engine) > 0);
}

TEST_CASE("plain requests are drawn by the writer, and samplers request no blocks") {
    const DaemonProcess daemon(GENERATE("{count: 1}", "{count: 3, wait: spin}"));
    EngineShape shape = lean_shape(GENERATE(1U, 3U));
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    for (std::uint64_t uid = 1; uid <= 8; ++uid) engine.admit(plain(uid));
    engine.steps(20);
    CHECK(block_requests_of(engine) == 0);
    const auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_only);
    REQUIRE(segment);
    for (std::uint32_t rank = 0; rank < shape.tp; ++rank)
        CHECK(drawn_by(segment.value(), 19, rank, 8) == std::vector<bool>(8, true));
}

TEST_CASE("the blocks of a request's allowed ids are sent, and samplers request no others") {
    const DaemonProcess daemon(kTwoSamplers);
    EngineShape shape = lean_shape(GENERATE(1U, 3U));
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    for (std::uint64_t uid = 1; uid <= 8; ++uid) {
        client::Sequence made = plain(uid);
        const auto id = static_cast<std::int32_t>(uid);
        made.allowed_ids = {500 * id, 500 * id + 1, 9000 + id, 13000 + 64 * id};
        if (uid % 2 == 0) made.params.mirostat = 2;
        engine.admit(made);
    }
    engine.steps(20);
    CHECK(block_requests_of(engine) == 0);
    const auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_only);
    REQUIRE(segment);
    for (const proto::SentFlags flags : flags_of(segment.value(), 19, 0, 8))
        CHECK(!flags.has(proto::Sent::whole_row));
}

TEST_CASE(
    "the blocks of ids with a positive bias are sent, and those of ids with a negative bias are not "
    "requested") {
    const DaemonProcess daemon(kTwoSamplers);
    EngineShape shape = lean_shape(GENERATE(1U, 3U));
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    for (std::uint64_t uid = 1; uid <= 8; ++uid) {
        client::Sequence made = plain(uid);
        const auto id = static_cast<std::int32_t>(uid);
        made.params.temperature = std::min(made.params.temperature, 0.8);
        made.bias = {{400 * id, 9.0F}, {7000 + id, 12.0F}, {13999, -5.0F}, {19000 + id, -100.0F}};
        engine.admit(made);
    }
    constexpr std::uint64_t kDecisions = 160;
    engine.steps(20);
    // The rest are rows whose best blocks are as good as others that were not sent.
    CHECK(block_requests_of(engine) < kDecisions / 4);
}

TEST_CASE("a writer draws no column whose controls may change its token") {
    const DaemonProcess daemon(kTwoSamplers);
    EngineShape shape = lean_shape(2);
    shape.masked = GENERATE(false, true);
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    client::Sequence biased = plain(1);
    biased.bias.push_back({7, 3.0F});
    client::Sequence unstopped = plain(2);
    unstopped.params.min_tokens = 3;
    unstopped.stop_ids = {5, 6};
    client::Sequence limited = plain(3);
    // So many that no mask hides all of them.
    for (std::int32_t id = 4; id < 14000; id += 331) limited.allowed_ids.push_back(id);
    client::Sequence forbidden = plain(4);
    forbidden.bad_words = {1, 9};
    const std::vector<client::Sequence> sequences{biased, unstopped, limited, forbidden, plain(5)};
    for (const auto& sequence : sequences) engine.admit(sequence);
    const auto drawn = [&](std::uint64_t step) {
        const auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_only);
        REQUIRE(segment);
        return drawn_by(segment.value(), step, 1, 5);
    };
    // A grammar mask is no obstacle: it is drawn under it.
    engine.steps(3);
    CHECK(drawn(2) == std::vector<bool>{false, false, false, false, true});
    engine.steps(3);
    CHECK(drawn(5) == std::vector<bool>{false, true, false, false, true});
}

TEST_CASE("the head of a masked column describes its masked row, unless the column stands whole") {
    const DaemonProcess daemon(kTwoSamplers);
    EngineShape shape = lean_shape(GENERATE(1U, 3U));
    shape.masked = true;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    const std::vector<client::Sequence> sequences = demanding();
    for (const auto& sequence : sequences) engine.admit(sequence);
    engine.steps(12);
    const auto segment = shm::Segment::attach(engine.segment_path(), shm::Access::read_only);
    REQUIRE(segment);
    for (std::uint32_t rank = 0; rank < shape.tp; ++rank) {
        const std::vector<proto::SentFlags> flags = flags_of(segment.value(), 11, rank, 8);
        for (std::size_t i = 0; i < sequences.size(); ++i) {
            CAPTURE(rank, i, flags[i].bits);
            // Where penalties change logits, the spread is that of what they were.
            const auto& params = sequences[i].params;
            const bool changes = params.repetition_penalty != 1.0 || !sequences[i].bias.empty();
            const bool spread = params.typical_p < 1.0 || params.top_n_sigma > 0.0;
            const bool whole = spread && changes;
            const proto::SentFlags expected = whole ? proto::Sent::whole_row : proto::Sent::under_mask;
            CHECK((flags[i] & (proto::Sent::whole_row | proto::Sent::under_mask)) == expected);
        }
    }
}

TEST_CASE("a lean step carries masks, log-probs and supports") {
    const DaemonProcess daemon(kTwoSamplers);
    EngineShape shape = lean_shape(2);
    shape.masked = GENERATE(false, true);
    shape.max_logprobs = 20;
    shape.max_support = 4000;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    for (std::uint64_t uid = 1; uid <= 8; ++uid) {
        client::Sequence sequence = SmallEngine::sequence(uid, kVocab);
        sequence.params.logprobs = uid % 2 == 0 ? 20 : 0;
        sequence.params.logprob_mode = uid % 3 == 0 ? 1 : 0;
        sequence.params.support = uid % 4 == 0 ? 4000 : 0;
        engine.admit(sequence);
    }
    engine.steps(12);
}

TEST_CASE("several lean steps in flight are decided in their order") {
    const DaemonProcess daemon(kTwoSamplers);
    EngineShape shape = lean_shape(2);
    shape.steps_in_flight = 4;
    SmallEngine engine(daemon.endpoint(), "engine", shape);
    engine.admit(shape.batch);
    for (int round = 0; round < 8; ++round) {
        for (std::uint32_t i = 0; i < shape.steps_in_flight; ++i) {
            engine.submit();
        }
        for (std::uint32_t i = 0; i < shape.steps_in_flight; ++i) {
            engine.write();
            engine.collect();
        }
    }
}

TEST_CASE("the successor of a writer that left before it answered writes the rows again") {
    const DaemonProcess daemon(kTwoSamplers);
    SmallEngine engine(daemon.endpoint(), "engine", lean_shape(2));
    for (const auto& sequence : demanding()) engine.admit(sequence);
    engine.steps(2);
    for (std::uint32_t round = 0; round < 20; ++round) {
        const std::uint64_t step = engine.submit();
        engine.write(step);
        await_decided(engine, step, round % demanding().size());
        engine.detach_writers();
        engine.attach_writers();
        // Its rows are wanted again where it was not decided.
        engine.write_if_wanted();
        engine.collect();
    }
}

TEST_CASE("samplers and a daemon that die while a row is awaited change no token") {
    DaemonProcess daemon(kTwoSamplers);
    SmallEngine engine(daemon.endpoint(), "engine", lean_shape(2));
    for (const auto& sequence : demanding()) engine.admit(sequence);
    engine.steps(2);
    for (std::uint32_t round = 0; round < 12; ++round) {
        const std::uint64_t step = engine.submit();
        engine.write();
        await_decided(engine, step, round % demanding().size());
        kill_in_round(daemon, round);
        engine.collect();
        REQUIRE(eventually([&] { return daemon.await_ready(); }));
    }
}

TEST_CASE("a lean session of another tile is refused, by name") {
    const DaemonProcess daemon(kTwoSamplers);
    EngineShape shape = lean_shape(1);
    shape.tile = 1;
    CHECK_THAT(failure_of([&] { const SmallEngine engine(daemon.endpoint(), "engine", shape); }),
               Contains("the transport lean has tiles of 64"));
}

TEST_CASE("a lean session with a hotness order is refused, by name") {
    const DaemonProcess daemon(kTwoSamplers);
    EngineShape shape = lean_shape(1);
    shape.order.resize(proto::blocks_of(shape.vocab));
    std::iota(shape.order.begin(), shape.order.end(), 0U);
    CHECK_THAT(failure_of([&] { const SmallEngine engine(daemon.endpoint(), "engine", shape); }),
               Contains("hotness order") && Contains("open it with the transport rows"));
}

TEST_CASE("a sampler that claims a column leaves it alone if another sampler has requested blocks of it") {
    DaemonProcess daemon("{count: 1, heartbeat_timeout_ms: 60000}");
    SmallEngine engine(daemon.endpoint(), "engine", lean_shape(1));
    engine.admit(8);
    engine.steps(1);
    // Nobody decides, and nobody answers.
    ::kill(daemon.sampler_pid(0), SIGSTOP);
    REQUIRE(eventually([&] { return is_stopped(daemon.sampler_pid(0)); }));
    const std::uint64_t number = engine.submit();
    engine.write(number);
    engine.detach_writers();

    proto::StateTotals totals{};
    auto view = testing::attached_view(engine.segment_path(), totals);
    REQUIRE(view);
    daemon::SessionView& session = *view.value();
    daemon::CheckedStep step;
    REQUIRE(daemon::check_record(session.segment(), number, step) == proto::DecisionError::none);
    const shm::BlockRequests requests(session.segment(), number, shm::writer_epochs(session.segment()));
    sampler::Workspace workspace(kVocab);
    const daemon::PreparedRaces races;
    REQUIRE(daemon::is_due(session.segment(), step, 0));
    const std::vector<std::uint64_t> all(requests.bits(0).size(), ~std::uint64_t{0});
    requests.ask(0, all);
    CHECK_FALSE(daemon::is_due(session.segment(), step, 0));
    CHECK(daemon::decide_column(session, step, 0, {}, races, workspace).deferred);
    // What has no token to come is answered, whatever its writer does.
    engine.finish(1);
    CHECK(daemon::is_due(session.segment(), step, 0));
    const auto gone = daemon::decide_column(session, step, 0, {}, races, workspace);
    CHECK_FALSE(gone.deferred);
    CHECK(gone.decision.error == proto::DecisionError::voided);
    ::kill(daemon.sampler_pid(0), SIGCONT);
}
