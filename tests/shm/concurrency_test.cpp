// Stress of all rings at once: every column is decided exactly once and taken in order.
#include <sched.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "shm/logits_publisher.h"
#include "shm/step_claims.h"
#include "shm/step_window.h"
#include "test_session.h"
#include "testing/child_process.h"
#include "testing/shared_object.h"

using namespace croupier;
using namespace croupier::shm;
using namespace croupier::testing;

namespace {

constexpr std::uint32_t kBatch = 16;
constexpr std::uint64_t kSteps = 7200;  // about 10^5 columns
constexpr std::uint32_t kSamplers = 3;

std::uint32_t columns_in(std::uint64_t step) {
    return 12 + static_cast<std::uint32_t>(step * 7 % 5);
}

struct Tally {
    std::atomic<bool> stop;
    std::atomic<std::uint64_t> faults;
    std::atomic<std::uint16_t> decided[kSteps * kBatch];
};

proto::Geometry stress_geometry() {
    proto::Geometry g = small_geometry();
    g.max_batch = kBatch;
    g.slots = 4;
    g.tp = 1;
    proto::fill_even_shards(g);
    return g;
}

// The value that the writer gives a column's logits; the sampler finds no other.
float logit_of(std::uint64_t step, std::uint32_t column) {
    return static_cast<float>(step * kBatch + column);
}

void write_slices(Segment& segment, LogitsPublisher& writer, const Tally& tally) {
    const auto& g = segment.geometry();
    while (!tally.stop.load()) {
        const auto step = writer.next_step();
        if (!step) {
            ::sched_yield();
            continue;
        }
        const std::uint32_t columns = writer.record(*step).columns;
        auto* slice = static_cast<float*>(writer.slice(*step));
        for (std::uint32_t tile = 0; tile < g.tiles(0); ++tile) {
            for (std::uint32_t column = 0; column < columns; ++column) {
                std::fill_n(slice, g.tile, logit_of(*step, column));
                slice += g.tile;
            }
            if (!writer.publish(*step, tile + 1)) return;
        }
    }
}

bool column_is_sound(const Segment& segment, std::uint64_t step, std::uint32_t column,
                     std::uint32_t columns) {
    const auto& g = segment.geometry();
    const auto* slice = static_cast<const float*>(segment.logits(segment.slot_of(step), 0));
    for (std::uint32_t tile = 0; tile < g.tiles(0); ++tile) {
        for (std::uint32_t i = 0; i < g.tile; ++i) {
            if (slice[(tile * columns + column) * g.tile + i] != logit_of(step, column)) return false;
        }
    }
    return columns == columns_in(step);
}

// One look of a sampler at the session. The record is read under a claim only: it cannot change then.
std::uint32_t sample(const Segment& segment, std::uint32_t owner, Tally& tally) {
    const StepWindow window = steps_in_flight(segment);
    if (!window.sound) tally.faults.fetch_add(1);
    std::uint32_t found = 0;
    for (std::uint64_t step = window.first; step < window.end; ++step) {
        if (!slice_ready(segment, step, 0)) continue;
        const StepClaims claims(segment, step);
        for (std::uint32_t column = 0; column < columns_in(step); ++column) {
            if (!claim(claims, column, owner)) continue;
            const std::uint32_t columns = segment.schedule(claims.slot()).columns;
            if (!column_is_sound(segment, step, column, columns)) tally.faults.fetch_add(1);
            tally.decided[step * kBatch + column].fetch_add(1);
            claims.commit(column, columns, decision_for(segment.schedule_columns(claims.slot())[column]));
            ++found;
        }
    }
    return found;
}

void sample_until_stopped(const Segment& segment, std::uint32_t owner, Tally& tally) {
    while (!tally.stop.load()) {
        if (sample(segment, owner, tally) == 0) ::sched_yield();
    }
}

// Publishes as far ahead as the ring allows, takes in order; false when an answer was wrong.
template <typename AfterTake>
bool drive(SchedulePublisher& client, const Segment& segment, AfterTake&& after_take) {
    for (std::uint64_t taken = 0; taken < kSteps; ++taken) {
        while (client.next_to_publish() < kSteps &&
               client.next_to_publish() - taken < segment.geometry().slots) {
            const std::uint64_t step = client.next_to_publish();
            if (!client.publish(columns_of(step, columns_in(step)))) return false;
        }
        while (!client.next_complete()) client.sleep(std::chrono::hours(1));
        const auto asked = columns_of(taken, columns_in(taken));
        const auto answers = client.next_decisions();
        if (answers.size() != asked.size()) return false;
        for (std::size_t i = 0; i < asked.size(); ++i) {
            if (!same(answers[i], decision_for(asked[i]))) return false;
        }
        client.take();
        after_take(taken);
    }
    return true;
}

std::uint64_t columns_not_decided_once(const Tally& tally) {
    std::uint64_t wrong = 0;
    for (std::uint64_t step = 0; step < kSteps; ++step) {
        for (std::uint32_t column = 0; column < kBatch; ++column) {
            const int expected = column < columns_in(step) ? 1 : 0;
            if (tally.decided[step * kBatch + column].load() != expected) ++wrong;
        }
    }
    return wrong;
}

}  // namespace

TEST_CASE("threads that claim 100,000 columns decide each exactly once, and the client takes them in order") {
    TestSession session(stress_geometry());
    Segment& segment = session.daemon();
    auto client = SchedulePublisher::attach(segment);
    auto writer = LogitsPublisher::attach(segment, 0);
    const auto tally = std::make_unique<Tally>();
    std::vector<std::thread> threads;
    threads.emplace_back([&] { write_slices(segment, writer.value(), *tally); });
    for (std::uint32_t i = 1; i <= kSamplers; ++i) {
        threads.emplace_back([&, i] { sample_until_stopped(segment, i, *tally); });
    }
    const bool right = drive(client.value(), segment, [](std::uint64_t) {});
    tally->stop.store(true);
    for (auto& thread : threads) thread.join();
    CHECK(right);
    CHECK(tally->faults.load() == 0);
    CHECK(columns_not_decided_once(*tally) == 0);
}

namespace {

ChildProcess start_sampler(const TestSession& session, std::uint32_t owner, Tally& tally) {
    return ChildProcess::start([&session, &tally, owner] {
        auto segment = Segment::attach(session.path(), Access::read_write);
        sample_until_stopped(segment.value(), owner, tally);
        return 0;
    });
}

ChildProcess start_writer(const TestSession& session, Tally& tally) {
    return ChildProcess::start([&] {
        auto segment = Segment::attach(session.path(), Access::read_write);
        auto writer = LogitsPublisher::attach(segment.value(), 0);
        write_slices(segment.value(), writer.value(), tally);
        return 0;
    });
}

}  // namespace

TEST_CASE(
    "processes that claim 100,000 columns decide each exactly once, and the client takes them in order") {
    TestSession session(stress_geometry());
    Segment segment = session.open();
    const Shared<Tally> tally;
    std::vector<ChildProcess> children;
    children.push_back(start_writer(session, *tally));
    for (std::uint32_t i = 1; i <= kSamplers; ++i) children.push_back(start_sampler(session, i, *tally));
    auto client = SchedulePublisher::attach(segment);
    const bool right = drive(client.value(), segment, [](std::uint64_t) {});
    tally->stop.store(true);
    for (auto& child : children) CHECK(child.wait() == 0);
    CHECK(right);
    CHECK(tally->faults.load() == 0);
    CHECK(columns_not_decided_once(*tally) == 0);
}

TEST_CASE("samplers and the writer that are killed again and again lose no column and decide none falsely") {
    TestSession session(stress_geometry());
    Segment& supervisor = session.daemon();
    Segment segment = session.open();
    const Shared<Tally> tally;
    std::uint32_t next_owner = 1;
    std::uint64_t reopened = 0;
    struct Sampler {
        std::uint32_t owner;
        ChildProcess process;
    };
    std::vector<Sampler> samplers;
    const auto hire = [&] {
        const std::uint32_t owner = next_owner++;
        return Sampler{owner, start_sampler(session, owner, *tally)};
    };
    samplers.reserve(kSamplers);
    for (std::uint32_t i = 0; i < kSamplers; ++i) samplers.push_back(hire());
    auto writer = start_writer(session, *tally);
    auto client = SchedulePublisher::attach(segment);
    const bool right = drive(client.value(), segment, [&](std::uint64_t taken) {
        if (taken % 20 != 0) return;
        Sampler& victim = samplers[taken / 20 % kSamplers];
        victim.process.kill_and_reap();
        const StepWindow window = steps_in_flight(supervisor);
        for (std::uint64_t step = window.first; step < window.end; ++step) {
            reopened += StepClaims(supervisor, step).reopen(victim.owner, columns_in(step), true);
        }
        victim = hire();
        if (taken % 100 != 0) return;
        writer.kill_and_reap();
        writer = start_writer(session, *tally);
    });
    tally->stop.store(true);
    CHECK(right);
    CHECK(tally->faults.load() == 0);
    std::uint64_t decisions = 0;
    std::uint64_t columns = 0;
    for (std::uint64_t step = 0; step < kSteps; ++step) columns += columns_in(step);
    for (const auto& count : tally->decided) decisions += count.load();
    // A column is decided again only when it was reopened.
    CHECK(decisions >= columns - reopened);
    CHECK(decisions <= columns + reopened);
}
