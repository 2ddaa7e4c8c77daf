// Nobody sleeps through a bell: two processes, and one that is killed in its sleep.
#include "shm/bell.h"

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>

#include "shm/futex.h"
#include "shm/step_claims.h"
#include "test_session.h"
#include "testing/child_process.h"
#include "testing/shared_object.h"

using namespace croupier;
using namespace croupier::shm;
using namespace croupier::testing;

namespace {

// So long that a lost wake-up is a hang, which CTest's time-out reports.
constexpr std::chrono::hours kForever{1};

struct Exchange {
    std::atomic<std::uint32_t> asked;
    std::atomic<std::uint32_t> answered;
};

void sleep_until(Bell& bell, std::uint32_t sampler, const std::atomic<std::uint32_t>& word,
                 std::uint32_t value) {
    for (;;) {
        const std::uint32_t seen = bell.seen();
        if (word.load(std::memory_order_acquire) >= value) return;
        bell.sleep(sampler, seen, kForever);
    }
}

std::uint64_t sleepers_in(const Mapping& page, std::size_t word) {
    return static_cast<const proto::BellPage*>(page.get_address())->sleepers[word].load();
}

Mapping look_at_bell(const std::string& directory) {
    const std::string path = bell_path(directory, "test");
    auto file = open_file(path, Access::read_only);
    return map_file(file.value(), 4096, Access::read_only, path).value();
}

}  // namespace

TEST_CASE("no ring is lost between two processes that sleep for each other") {
    TestDirectory directory;
    REQUIRE(Bell::create_or_adopt(directory.path(), "asks", {}));
    REQUIRE(Bell::create_or_adopt(directory.path(), "answers", {}));
    constexpr std::uint32_t kRounds = 20000;
    const Shared<Exchange> exchange;
    auto sleeper = ChildProcess::start([&] {
        auto asks = Bell::attach(directory.path(), "asks");
        auto answers = Bell::attach(directory.path(), "answers");
        for (std::uint32_t round = 1; round <= kRounds; ++round) {
            sleep_until(asks.value(), 70, exchange->asked, round);
            exchange->answered.store(round, std::memory_order_release);
            answers.value().ring();
        }
        return 0;
    });
    auto asks = Bell::attach(directory.path(), "asks");
    auto answers = Bell::attach(directory.path(), "answers");
    for (std::uint32_t round = 1; round <= kRounds; ++round) {
        exchange->asked.store(round, std::memory_order_release);
        asks.value().ring();
        sleep_until(answers.value(), 3, exchange->answered, round);
    }
    CHECK(sleeper.wait() == 0);
}

TEST_CASE("no decision is lost on a client that sleeps for each step") {
    TestSession session;
    constexpr std::uint64_t kSteps = 10000;
    auto sampler = ChildProcess::start([&] {
        auto segment = Segment::attach(session.path(), Access::read_write);
        for (std::uint64_t step = 0; step < kSteps; ++step) {
            while (segment.value().header().published.load(std::memory_order_acquire) <= step)
                ::sched_yield();
            decide_rest(segment.value(), step, 2, 1);
        }
        return 0;
    });
    Segment segment = session.open();
    auto client = SchedulePublisher::attach(segment);
    for (std::uint64_t step = 0; step < kSteps; ++step) {
        REQUIRE(client.value().publish(columns_of(step, 2)));
        while (!client.value().next_complete()) client.value().sleep(kForever);
        REQUIRE(take_all(client.value(), segment));
    }
    CHECK(sampler.wait() == 0);
}

TEST_CASE(
    "a sampler that is killed in its sleep leaves a bit that its supervisor clears, and others still wake") {
    TestDirectory directory;
    REQUIRE(Bell::create_or_adopt(directory.path(), "test", {}));
    const Shared<Exchange> exchange;
    const auto sleeping_sampler = [&](std::uint32_t sampler) {
        return ChildProcess::start([&directory, &exchange, sampler] {
            auto bell = Bell::attach(directory.path(), "test");
            sleep_until(bell.value(), sampler, exchange->asked, 1);
            return 0;
        });
    };
    const Mapping page = look_at_bell(directory.path());
    auto killed = sleeping_sampler(65);
    auto other = sleeping_sampler(66);
    while (sleepers_in(page, 1) != 0b110U) ::sched_yield();
    killed.kill_and_reap();
    CHECK(sleepers_in(page, 1) == 0b110U);
    auto bell = Bell::attach(directory.path(), "test");
    bell.value().forget_sleeper(65);
    CHECK((sleepers_in(page, 1) & 0b010U) == 0);
    exchange->asked.store(1, std::memory_order_release);
    bell.value().ring();
    CHECK(other.wait() == 0);
    CHECK(sleepers_in(page, 1) == 0);
}

TEST_CASE("a bell that rang after it was looked at does not let one sleep") {
    TestDirectory directory;
    auto bell = Bell::create_or_adopt(directory.path(), "test", {});
    REQUIRE(bell);
    const std::uint32_t seen = bell.value().seen();
    bell.value().ring();
    bell.value().sleep(0, seen, kForever);
    CHECK(bell.value().seen() != seen);
}

TEST_CASE("a restarted daemon adopts a sound bell, so that clients keep ringing the page they mapped") {
    TestDirectory directory;
    auto before = Bell::create_or_adopt(directory.path(), "test", {});
    auto client = Bell::attach(directory.path(), "test");
    auto after = Bell::create_or_adopt(directory.path(), "test", {});
    REQUIRE(after);
    const std::uint32_t seen = after.value().seen();
    client.value().ring();
    CHECK(after.value().seen() == seen + 1);
}

TEST_CASE(
    "a restarted daemon mends a bell that somebody overwrote or cut off, and clients ring the same page") {
    const TestDirectory directory;
    auto first = Bell::create_or_adopt(directory.path(), "test", {});
    REQUIRE(first);
    auto client = Bell::attach(directory.path(), "test");
    REQUIRE(client);
    const std::string path = bell_path(directory.path(), "test");
    if (GENERATE(false, true)) {
        REQUIRE(::truncate(path.c_str(), 16) == 0);
        REQUIRE(::truncate(path.c_str(), 4096) == 0);
    }
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).write("nonsense", 8);
    auto next = Bell::create_or_adopt(directory.path(), "test", {});
    REQUIRE(next);
    const std::uint32_t before = next.value().seen();
    client.value().ring();
    CHECK(next.value().seen() == before + 1);
    CHECK(Bell::attach(directory.path(), "test"));
}

TEST_CASE("a futex wait ends with a wake, and at once when the word has changed") {
    const Shared<std::atomic<std::uint32_t>> word;
    auto sleeper = ChildProcess::start([&] {
        while (word->load() == 0) futex_wait(*word, 0, kForever);
        return 0;
    });
    word->store(1);
    futex_wake_all(*word);
    CHECK(sleeper.wait() == 0);
    futex_wait(*word, 0, kForever);
    CHECK(word->load() == 1);
}
