// "Several cleaners race": forked processes reopen the columns of the dead at once, while others claim them.
#include <sched.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <vector>

#include "shm/step_claims.h"
#include "test_session.h"
#include "testing/child_process.h"
#include "testing/shared_object.h"

using namespace croupier;
using namespace croupier::shm;
using namespace croupier::testing;
using proto::SessionCounter;

namespace {

constexpr std::uint32_t kColumns = 128;
constexpr std::uint32_t kDead = 5;
constexpr int kCleaners = 3;
constexpr int kClaimers = 2;

struct Tally {
    std::atomic<int> at_gate;
    std::atomic<std::uint32_t> freed;
    std::array<std::atomic<std::uint32_t>, kColumns> won;
};

void meet(Tally& tally) {
    tally.at_gate.fetch_add(1);
    while (tally.at_gate.load() < kCleaners + kClaimers) ::sched_yield();
}

int clean(const std::string& path, std::uint64_t step, Tally& tally) {
    auto segment = Segment::attach(path, Access::read_write);
    meet(tally);
    tally.freed.fetch_add(StepClaims(segment.value(), step).reopen(kDead, kColumns, true));
    return 0;
}

int claim(const std::string& path, std::uint64_t step, std::uint32_t owner, Tally& tally) {
    auto segment = Segment::attach(path, Access::read_write);
    const StepClaims claims(segment.value(), step);
    meet(tally);
    std::uint32_t committed = 0;
    while (committed < kColumns) {
        committed = 0;
        for (std::uint32_t column = 0; column < kColumns; ++column) {
            if (claim(claims, column, owner)) {
                tally.won[column].fetch_add(1);
                claims.commit(column, kColumns,
                              decision_for(segment.value().schedule_columns(claims.slot())[column]));
            }
            if (claims.is_committed(column)) ++committed;
        }
    }
    return 0;
}

void race(const TestSession& session, std::uint64_t step, Tally& tally) {
    std::vector<ChildProcess> racers;
    racers.reserve(std::size_t{kCleaners + kClaimers});
    for (int i = 0; i < kCleaners; ++i) {
        racers.push_back(ChildProcess::start([&] { return clean(session.path(), step, tally); }));
    }
    for (std::uint32_t i = 0; i < kClaimers; ++i) {
        racers.push_back(ChildProcess::start([&, i] { return claim(session.path(), step, 100 + i, tally); }));
    }
    for (auto& racer : racers) REQUIRE(racer.wait() == 0);
}

proto::Geometry wide_geometry() {
    proto::Geometry g = small_geometry();
    g.max_batch = kColumns;
    return g;
}

void claim_all_for_the_dead(const Segment& segment, std::uint64_t step) {
    for (std::uint32_t column = 0; column < kColumns; ++column) {
        REQUIRE(claim(StepClaims(segment, step), column, kDead));
    }
}

}  // namespace

TEST_CASE("cleaners that race free each column once, count each death once, and it is decided exactly once") {
    TestSession session(wide_geometry());
    Segment segment = session.open();
    auto client = SchedulePublisher::attach(segment);
    constexpr std::uint32_t kRounds = 40;
    for (std::uint32_t round = 0; round < kRounds; ++round) {
        const std::uint64_t step = client.value().publish(columns_of(round, kColumns)).value();
        claim_all_for_the_dead(session.daemon(), step);
        const Shared<Tally> tally;
        race(session, step, *tally);
        REQUIRE(tally->freed.load() == kColumns);
        for (std::uint32_t column = 0; column < kColumns; ++column) {
            REQUIRE(tally->won[column].load() == 1);
            REQUIRE(session.daemon().crashes(segment.slot_of(step))[column].load() == 1);
        }
        REQUIRE(take_all(client.value(), segment));
    }
    CHECK(session.count(SessionCounter::columns_redecided) == std::uint64_t{kRounds} * kColumns);
    CHECK(session.count(SessionCounter::columns_decided) == std::uint64_t{kRounds} * kColumns);
}

TEST_CASE("cleaners that race at the crash limit answer each column once, and no claimer gets one") {
    TestSession session(wide_geometry());
    Segment segment = session.open();
    auto client = SchedulePublisher::attach(segment);
    constexpr std::uint32_t kRounds = 20;
    for (std::uint32_t round = 0; round < kRounds; ++round) {
        const std::uint64_t step = client.value().publish(columns_of(round, kColumns)).value();
        for (std::uint32_t crash = 1; crash < StepClaims::kCrashLimit; ++crash) {
            claim_all_for_the_dead(session.daemon(), step);
            REQUIRE(StepClaims(session.daemon(), step).reopen(kDead, kColumns, true) == kColumns);
        }
        claim_all_for_the_dead(session.daemon(), step);
        const Shared<Tally> tally;
        race(session, step, *tally);
        for (std::uint32_t column = 0; column < kColumns; ++column) REQUIRE(tally->won[column].load() == 0);
        REQUIRE(client.value().next_complete());
        for (const proto::Decision answer : client.value().next_decisions()) {
            REQUIRE(answer.error == proto::DecisionError::sampler_crashed);
        }
        client.value().take();
    }
    CHECK(session.count(SessionCounter::columns_failed) == std::uint64_t{kRounds} * kColumns);
}
