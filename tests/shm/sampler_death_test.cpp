// "A consumer dies": a sampler killed anywhere loses no column, and none is decided twice.
#include <catch2/catch.hpp>
#include <csignal>

#include "shm/step_claims.h"
#include "shm/step_window.h"
#include "single_step.h"
#include "test_session.h"
#include "testing/child_process.h"

using namespace croupier;
using namespace croupier::shm;
using namespace croupier::testing;

namespace {

constexpr std::uint32_t kDead = 7;
constexpr std::uint32_t kAlive = 8;
constexpr std::uint32_t kColumns = 3;

// A process that claims every column of the step and is killed before it commits any.
void claim_and_die(const TestSession& session, std::uint64_t step, std::uint32_t columns,
                   std::uint32_t owner) {
    auto sampler = ChildProcess::start([&] {
        auto segment = Segment::attach(session.path(), Access::read_write);
        for (std::uint32_t column = 0; column < columns; ++column) {
            if (!claim(StepClaims(segment.value(), step), column, owner)) return 1;
        }
        return ::raise(SIGKILL);
    });
    REQUIRE(sampler.wait() == -1);
}

struct OneClient {
    explicit OneClient(TestSession& session)
        : segment(session.open()), client(SchedulePublisher::attach(segment).value()) {}
    std::uint64_t publish(std::uint32_t columns) {
        return client.publish(columns_of(client.next_to_publish(), columns)).value();
    }
    Segment segment;
    SchedulePublisher client;
};

}  // namespace

TEST_CASE("a sampler that dies at any instruction of commit leaves its column undecided or decided once") {
    if (!can_single_step()) return;
    TestSession session;
    Segment& supervisor = session.daemon();
    OneClient engine(session);
    std::uint64_t step = engine.publish(kColumns);
    long undecided = 0;
    long decided = 0;

    const SteppedBody commit = [&](const std::function<void()>& marker) {
        auto segment = Segment::attach(session.path(), Access::read_write);
        const StepClaims claims(segment.value(), step);
        claims.try_claim(0, kDead);
        const auto decision = decision_for(segment.value().schedule_columns(claims.slot())[0]);
        marker();
        claims.commit(0, kColumns, decision);
        marker();
    };
    die_everywhere(commit, [&](long instructions) {
        INFO("killed after " << instructions << " instructions of step " << step);
        const StepClaims claims(supervisor, step);
        const bool committed = claims.is_committed(0);
        const auto asked = columns_of(step, kColumns);
        if (committed) REQUIRE(same(supervisor.decisions(claims.slot())[0], decision_for(asked[0])));
        REQUIRE_FALSE(claims.try_claim(0, kAlive));
        REQUIRE(claims.reopen(kDead, kColumns, true) == (committed ? 0U : 1U));
        REQUIRE(decide_rest(supervisor, step, kColumns, kAlive) == (committed ? kColumns - 1 : kColumns));
        REQUIRE(take_all(engine.client, engine.segment));
        ++(committed ? decided : undecided);
        step = engine.publish(kColumns);
    });
    CHECK(undecided > 0);
    CHECK(decided > 0);
}

TEST_CASE("a cleaner that dies at any instruction of reopening loses no column to its successor") {
    if (!can_single_step()) return;
    TestSession session;
    Segment& supervisor = session.daemon();
    OneClient engine(session);
    std::uint64_t step = 0;
    const auto next_round = [&] {
        step = engine.publish(kColumns);
        for (std::uint32_t column = 0; column < kColumns; ++column) {
            REQUIRE(StepClaims(supervisor, step).try_claim(column, kDead));
        }
    };
    next_round();
    const SteppedBody reopen = [&](const std::function<void()>& marker) {
        auto segment = Segment::attach(session.path(), Access::read_write);
        marker();
        StepClaims(segment.value(), step).reopen(kDead, kColumns, true);
        marker();
    };
    die_everywhere(reopen, [&](long instructions) {
        INFO("killed after " << instructions << " instructions of step " << step);
        StepClaims(supervisor, step).reopen_all(kColumns);
        REQUIRE(decide_rest(supervisor, step, kColumns, kAlive) == kColumns);
        REQUIRE(take_all(engine.client, engine.segment));
        next_round();
    });
}

TEST_CASE("columns of a killed sampler are claimed again only after they were reopened, and then once") {
    TestSession session;
    OneClient engine(session);
    const std::uint64_t step = engine.publish(kColumns);
    claim_and_die(session, step, kColumns, kDead);
    CHECK(decide_rest(session.daemon(), step, kColumns, kAlive) == 0);
    CHECK(StepClaims(session.daemon(), step).reopen(kDead, kColumns, true) == kColumns);
    CHECK(session.count(proto::SessionCounter::columns_redecided) == kColumns);
    CHECK(decide_rest(session.daemon(), step, kColumns, kAlive) == kColumns);
    CHECK(decide_rest(session.daemon(), step, kColumns, kAlive + 1) == 0);
    CHECK(take_all(engine.client, engine.segment));
}

TEST_CASE("reopening one dead sampler leaves the claims of live ones alone") {
    TestSession session;
    OneClient engine(session);
    const std::uint64_t step = engine.publish(kColumns);
    const StepClaims claims(session.daemon(), step);
    REQUIRE(claims.try_claim(0, kDead));
    REQUIRE(claims.try_claim(1, kAlive));
    CHECK(claims.reopen(kDead, kColumns, true) == 1);
    CHECK_FALSE(claim(claims, 1, kDead));
    CHECK(claim(claims, 0, kAlive));
}

TEST_CASE(
    "after a daemon's death the claims of all its samplers are reopened, decided columns stay decided") {
    TestSession session;
    OneClient engine(session);
    const std::uint64_t step = engine.publish(kColumns);
    const StepClaims claims(session.daemon(), step);
    REQUIRE(claims.try_claim(0, 3));
    REQUIRE(claims.try_claim(1, 4));
    claims.commit(1, kColumns, decision_for(columns_of(step, kColumns)[1]));
    CHECK(claims.reopen_all(kColumns) == 1);
    CHECK_FALSE(claim(claims, 1, kAlive));
    CHECK(decide_rest(session.daemon(), step, kColumns, kAlive) == kColumns - 1);
    CHECK(take_all(engine.client, engine.segment));
}

TEST_CASE(
    "a column that three samplers died of is answered with sampler_crashed, its neighbours with tokens") {
    TestSession session;
    OneClient engine(session);
    const std::uint64_t step = engine.publish(kColumns);
    const StepClaims claims(session.daemon(), step);
    for (std::uint32_t crash = 1; crash <= StepClaims::kCrashLimit; ++crash) {
        CHECK_FALSE(claims.is_committed(0));
        claim_and_die(session, step, 1, crash);
        CHECK(claims.reopen(crash, kColumns, true) == 1);
    }
    REQUIRE(claims.is_committed(0));
    CHECK_FALSE(claim(claims, 0, kAlive));
    CHECK(decide_rest(session.daemon(), step, kColumns, kAlive) == kColumns - 1);
    REQUIRE(engine.client.next_complete());
    const auto answers = engine.client.next_decisions();
    const auto asked = columns_of(step, kColumns);
    const proto::Decision crashed = answers[0];
    CHECK(crashed.error == proto::DecisionError::sampler_crashed);
    CHECK(crashed.sequence_uid == asked[0].sequence_uid);
    CHECK(crashed.token == -1);
    for (std::uint32_t column = 1; column < kColumns; ++column)
        CHECK(same(answers[column], decision_for(asked[column])));
    CHECK(session.count(proto::SessionCounter::columns_failed) == 1);
}

TEST_CASE("a column that died beside another is suspected: it is decided alone, and no death is counted") {
    TestSession session;
    OneClient engine(session);
    const std::uint64_t step = engine.publish(kColumns);
    const StepClaims claims(session.daemon(), step);
    for (std::uint32_t death = 1; death <= 2 * StepClaims::kCrashLimit; ++death) {
        claim_and_die(session, step, 2, death);
        CHECK(claims.claimed_by(death, kColumns) == 2);
        CHECK(claims.reopen(death, kColumns, false) == 2);
        CHECK_FALSE(claims.try_claim(0, kAlive));
        CHECK(claims.is_suspect(0));
        CHECK_FALSE(claims.is_suspect(2));
    }
    CHECK(claims.has_suspect(kColumns));
    CHECK(decide_rest(session.daemon(), step, kColumns, kAlive) == kColumns);
    CHECK(take_all(engine.client, engine.segment));
}

TEST_CASE("a sampler that comes late to a reused slot can neither claim a column of it nor refuse it") {
    TestSession session;
    OneClient engine(session);
    const StepClaims late(session.daemon(), engine.publish(kColumns));
    decide_rest(session.daemon(), 0, kColumns, kAlive);
    engine.client.take();
    for (std::uint32_t i = 0; i < session.daemon().geometry().slots; ++i) engine.publish(kColumns);
    CHECK_FALSE(late.try_claim(0, kDead));
    late.refuse(proto::DecisionError::bad_record);
    CHECK(late.reopen_all(kColumns) == 0);
    const std::uint32_t slot = late.slot();
    CHECK(step_refusal(session.daemon(), slot) == proto::DecisionError::none);
    CHECK_FALSE(step_complete(session.daemon(), slot, kColumns));
    CHECK(session.count(proto::SessionCounter::records_refused) == 0);
}

TEST_CASE("a malformed record is refused once, whoever finds it, and the client learns why") {
    TestSession session;
    OneClient engine(session);
    const StepClaims claims(session.daemon(), engine.publish(kColumns));
    claims.refuse(proto::DecisionError::bad_record);
    claims.refuse(proto::DecisionError::bad_sequence);
    CHECK(engine.client.next_complete());
    CHECK(engine.client.next_refusal() == proto::DecisionError::bad_record);
    CHECK(session.count(proto::SessionCounter::records_refused) == 1);
}
