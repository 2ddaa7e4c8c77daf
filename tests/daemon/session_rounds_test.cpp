#include "daemon/worker/session_rounds.h"

#include <catch2/catch.hpp>
#include <map>

using namespace croupier;
using daemon::SessionRounds;

namespace {

constexpr std::uint64_t kNever = SessionRounds::kNever;
constexpr std::uint64_t kSlice = SessionRounds::kSliceNs;

// A sampler whose clock moves only as its sessions use it, or by an idle round.
class Sampler {
  public:
    static constexpr std::uint64_t kIdleNs = 100;

    struct Session {
        std::uint64_t column_ns = 0;
        std::uint64_t columns = 0;  // that are ready
        std::uint64_t used_ns = 0;
        std::uint64_t decided = 0;
    };

    Session& operator[](std::uint64_t id) { return sessions_[id]; }
    std::uint64_t now() const { return now_; }

    // In a slice a session decides columns until it is over.
    void round(std::uint64_t until_due = kNever) {
        bool worked = false;
        for (auto& [id, session] : sessions_) {
            if (rounds_.sits_out(id)) continue;
            std::uint64_t used = 0;
            while (used < kSlice && session.columns > 0) {
                used += session.column_ns;
                --session.columns;
                ++session.decided;
            }
            rounds_.note(id, used);
            session.used_ns += used;
            now_ += used;
            worked = worked || used > 0;
        }
        if (!worked) now_ += kIdleNs;
        rounds_.end(now_, until_due);
    }

  private:
    SessionRounds rounds_;
    std::map<std::uint64_t, Session> sessions_;
    std::uint64_t now_ = 1'000'000;
};

constexpr std::uint64_t kOrdinary = 32'000;
constexpr std::uint64_t kDear = 12'000'000;
constexpr std::uint64_t kMany = 1'000'000;

}  // namespace

TEST_CASE("sessions share a sampler's time, whatever their columns cost") {
    Sampler sampler;
    sampler[1] = {kDear, kMany};
    sampler[2] = {kOrdinary, kMany};
    sampler[3] = {kSlice / 7, kMany};
    for (int i = 0; i < 20'000; ++i) sampler.round();
    const auto used = [&](std::uint64_t id) { return static_cast<double>(sampler[id].used_ns); };
    CHECK(used(2) > 0.8 * used(1));
    CHECK(used(3) > 0.8 * used(2));
    CHECK(used(1) > 0.8 * used(3));
}

TEST_CASE("all columns of a step wait for one dear column of a neighbour") {
    Sampler sampler;
    sampler[1] = {kDear, kMany};
    sampler[2] = {kOrdinary, 0};
    for (int step = 0; step < 20; ++step) {
        // Its neighbour has begun one just now.
        const std::uint64_t before = sampler[1].decided;
        while (sampler[1].decided == before) sampler.round();
        sampler[2].columns = 64;
        while (sampler[2].columns > 0) sampler.round();
        CHECK(sampler[1].decided == before + 1);
    }
}

TEST_CASE("a dear session has the sampler to itself while the others have nothing to do") {
    Sampler sampler;
    sampler[1] = {kDear, kMany};
    sampler[2] = {kOrdinary, 0};
    const std::uint64_t begin = sampler.now();
    for (int i = 0; i < 2000; ++i) sampler.round();
    CHECK(sampler.now() - begin - sampler[1].used_ns < 2000 * Sampler::kIdleNs);
    CHECK(sampler[1].decided >= 999);
}

TEST_CASE("a dear column does not begin shortly before logits are due, and begins if they do not come") {
    Sampler sampler;
    sampler[1] = {kDear, kMany};
    sampler[2] = {kOrdinary, 0};
    sampler.round();
    REQUIRE(sampler[1].decided == 1);
    const std::uint64_t begin = sampler.now();
    SECTION("they are due later than the column would end") {
        sampler.round(kDear);
        sampler.round(kDear);
        CHECK(sampler[1].decided == 2);
    }
    SECTION("they come") {
        while (sampler.now() < begin + kDear) sampler.round(kDear - 1);
        sampler[2].columns = 1;
        sampler.round(0);
        CHECK(sampler[1].decided == 1);
        CHECK(sampler[2].decided == 1);
    }
    SECTION("they do not come") {
        while (sampler[1].decided == 1) sampler.round(0);
        CHECK(sampler.now() - begin < 3 * kDear + kDear / 10);
    }
}

TEST_CASE("a session owes no more than the dearest column takes, however long its sampler was away") {
    daemon::SessionRounds rounds;
    rounds.note(1, 100'000'000);
    rounds.end(0, 0);
    CHECK(rounds.sits_out(1));
    std::uint64_t now = 0;
    while (rounds.sits_out(1)) rounds.end(now += 1'000'000, 0);
    CHECK(now <= 2 * daemon::SessionRounds::kMostOwedNs);
}
