// Nobody sleeps through a bell: two processes, and one that is killed in its sleep.
#include "shm/bell.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstddef>
#include <random>
#include <stdexcept>
#include <vector>

#include "proto/plane.h"
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
    proto::Bell asks;
    proto::Bell answers;
    std::atomic<std::uint32_t> asked;
    std::atomic<std::uint32_t> answered;
};

void sleep_until(proto::Bell& bell, std::uint32_t sampler, const std::atomic<std::uint32_t>& word,
                 std::uint32_t value) {
    for (;;) {
        const std::array heard = {listen_to(bell)};
        if (word.load(std::memory_order_acquire) >= value) return;
        sleep_on(heard, sampler, kForever);
    }
}

// As an old sandbox does: the call fails with EPERM.
void forbid_futex_waitv() {
    std::array<sock_filter, 4> filter = {{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex_waitv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    }};
    const sock_fprog program{filter.size(), filter.data()};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        throw std::runtime_error("no seccomp filter");
}

}  // namespace

TEST_CASE("no ring is lost between two processes that sleep for each other") {
    constexpr std::uint32_t kRounds = 20000;
    const Shared<Exchange> exchange;
    auto sleeper = ChildProcess::start([&] {
        for (std::uint32_t round = 1; round <= kRounds; ++round) {
            sleep_until(exchange->asks, 70, exchange->asked, round);
            exchange->answered.store(round, std::memory_order_release);
            ring(exchange->answers);
        }
        return 0;
    });
    for (std::uint32_t round = 1; round <= kRounds; ++round) {
        exchange->asked.store(round, std::memory_order_release);
        ring(exchange->asks);
        sleep_until(exchange->answers, 3, exchange->answered, round);
    }
    CHECK(sleeper.wait() == 0);
}

TEST_CASE("a sampler that sleeps on the bells of all sessions misses no ring") {
    struct Sessions {
        std::array<proto::Bell, proto::kMaxSessions + 1> bells;
        std::array<std::atomic<std::uint32_t>, proto::kMaxSessions + 1> asked;
        std::atomic<std::uint32_t> answered;
        proto::Bell answers;
    };
    constexpr std::uint32_t kRounds = 20000;
    const Shared<Sessions> sessions;
    auto sampler = ChildProcess::start([&] {
        for (std::uint32_t done = 0; done < kRounds;) {
            std::vector<HeardBell> heard;
            for (proto::Bell& bell : sessions->bells) heard.push_back(listen_to(bell));
            std::uint32_t all = 0;
            for (const auto& asked : sessions->asked) all += asked.load(std::memory_order_acquire);
            if (all == done) sleep_on(heard, 200, kForever);
            done = all;
            sessions->answered.store(done, std::memory_order_release);
            ring(sessions->answers);
        }
        return 0;
    });
    std::mt19937 generator(7);
    for (std::uint32_t round = 1; round <= kRounds; ++round) {
        const std::size_t session = generator() % sessions->bells.size();
        sessions->asked[session].fetch_add(1, std::memory_order_release);
        ring(sessions->bells[session]);
        sleep_until(sessions->answers, 3, sessions->answered, round);
    }
    CHECK(sampler.wait() == 0);
    for (const proto::Bell& bell : sessions->bells) CHECK(bell.sleepers[200 / 64].load() == 0);
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
    "a sampler that was killed in its sleep leaves a bit that its successor clears, and others still wake") {
    const Shared<Exchange> exchange;
    const auto sleeping_sampler = [&](std::uint32_t sampler) {
        return ChildProcess::start([&exchange, sampler] {
            sleep_until(exchange->asks, sampler, exchange->asked, 1);
            return 0;
        });
    };
    const auto& sleepers = exchange->asks.sleepers[1];
    auto killed = sleeping_sampler(65);
    auto other = sleeping_sampler(66);
    while (sleepers.load() != 0b110U) ::sched_yield();
    killed.kill_and_reap();
    CHECK(sleepers.load() == 0b110U);
    exchange->asked.store(1, std::memory_order_release);
    ring(exchange->asks);
    CHECK(other.wait() == 0);
    const std::array heard = {listen_to(exchange->asks)};
    ring(exchange->asks);
    sleep_on(heard, 65, kForever);
    CHECK(sleepers.load() == 0);
}

TEST_CASE("a ring for one wakes all samplers, the first of which wakes the others") {
    constexpr std::uint32_t kSleepers = 5;
    constexpr std::uint32_t kRounds = 2000;
    struct Room {
        proto::Bell bell;
        proto::Bell done;
        std::atomic<std::uint32_t> asked;
        std::array<std::atomic<std::uint32_t>, kSleepers> answered;
    };
    const Shared<Room> room;
    std::vector<ChildProcess> sleepers;
    for (std::uint32_t sampler = 0; sampler < kSleepers; ++sampler) {
        sleepers.push_back(ChildProcess::start([&room, sampler] {
            for (std::uint32_t round = 1; round <= kRounds; ++round) {
                sleep_until(room->bell, sampler, room->asked, round);
                room->answered[sampler].store(round, std::memory_order_release);
                ring(room->done);
            }
            return 0;
        }));
    }
    for (std::uint32_t round = 1; round <= kRounds; ++round) {
        room->asked.store(round, std::memory_order_release);
        ring_for_one(room->bell);
        for (const auto& answered : room->answered) sleep_until(room->done, 9, answered, round);
    }
    for (ChildProcess& sleeper : sleepers) CHECK(sleeper.wait() == 0);
}

TEST_CASE("a bell that rang after it was looked at does not let a sampler sleep") {
    const Shared<Exchange> exchange;
    const auto rung = GENERATE(std::size_t{0}, std::size_t{1});
    const std::array heard = {listen_to(exchange->asks), listen_to(exchange->answers)};
    ring(*heard[rung].bell);
    sleep_on(heard, 0, kForever);
    CHECK(heard[rung].bell->rung.load() != heard[rung].seen);
}

TEST_CASE("a sampler whose sandbox forbids futex_waitv still wakes within its polling period") {
    const Shared<Exchange> exchange;
    auto sampler = ChildProcess::start([&] {
        forbid_futex_waitv();
        for (;;) {
            const std::array heard = {listen_to(exchange->asks), listen_to(exchange->answers)};
            if (exchange->asked.load(std::memory_order_acquire) != 0) return 0;
            sleep_on(heard, 0, kForever);
        }
    });
    while (exchange->answers.sleepers[0].load() == 0) ::sched_yield();
    exchange->asked.store(1, std::memory_order_release);
    ring(exchange->answers);
    CHECK(sampler.wait() == 0);
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
