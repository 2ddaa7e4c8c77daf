// How often a writer's threads look for logits, by what is known of the steps before.
#include "gpu_writer/logits_pace.h"

#include <catch2/catch.hpp>

using namespace croupier;
using gpu_writer::until_look_for_logits;

namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kBegin = 1000 * kMs;

shm::LogitsForecast of_steps_every(std::uint64_t ns) {
    shm::LogitsForecast forecast(gpu_writer::kLongestStepNs);
    for (std::uint64_t step = 0; step < 10; ++step) forecast.note(step, kBegin + step * ns);
    return forecast;
}

// How many looks a thread takes from one step to the next one's logits, and how late it sees them.
struct Looks {
    std::uint64_t count = 0;
    std::uint64_t late_ns = 0;
};
Looks looks_at(std::uint64_t usual_ns, std::uint64_t this_one_ns) {
    const shm::LogitsForecast forecast = of_steps_every(usual_ns);
    const std::uint64_t from = kBegin + 9 * usual_ns;
    std::uint64_t now = from;
    Looks looks;
    while (now < from + this_one_ns) {
        now += static_cast<std::uint64_t>(
            until_look_for_logits(forecast, now, std::chrono::nanoseconds(now - from)).count());
        ++looks.count;
    }
    looks.late_ns = now - from - this_one_ns;
    return looks;
}

}  // namespace

TEST_CASE("a step that comes as those before is seen at once, for few looks") {
    for (const std::uint64_t usual : {kMs / 5, kMs, 5 * kMs, 10 * kMs, 40 * kMs}) {
        const Looks looks = looks_at(usual, usual);
        CHECK(looks.late_ns < 25'000);
        // Six microseconds each: a hundredth of a core beside 10 ms.
        if (usual >= 10 * kMs) CHECK(looks.count * 6'000 * 100 < usual);
    }
}

TEST_CASE("a step that is early or late is seen a share of that later, and no step a millisecond late") {
    for (const std::uint64_t usual : {kMs, 10 * kMs, 40 * kMs}) {
        for (const std::uint64_t off : {kMs / 10, kMs / 2, 2 * kMs, 10 * kMs, 30 * kMs}) {
            CHECK(looks_at(usual, usual + off).late_ns <= std::clamp<std::uint64_t>(off / 4, 25'000, kMs));
            if (off >= usual) continue;
            CHECK(looks_at(usual, usual - off).late_ns <= std::clamp<std::uint64_t>(off, 25'000, kMs));
        }
    }
}

TEST_CASE("steps of 250 ms and of 3 s are looked for as rarely, and seen as soon, as shorter ones") {
    for (const std::uint64_t usual : {250 * kMs, 3000 * kMs}) {
        const Looks looks = looks_at(usual, usual);
        CHECK(looks.late_ns < 25'000);
        CHECK(looks.count < usual / kMs + 100);
        const auto forecast = of_steps_every(usual);
        const std::uint64_t last = kBegin + 9 * usual;
        const auto until_look = [&](std::uint64_t passed) {
            return until_look_for_logits(forecast, last + passed, std::chrono::nanoseconds(passed));
        };
        CHECK(until_look(usual / 2) == std::chrono::milliseconds(1));
        CHECK(until_look(usual - kMs / 10) == std::chrono::microseconds(50));
        CHECK(until_look(usual + kMs / 10) == std::chrono::microseconds(25));
        CHECK(until_look(2 * usual) == std::chrono::milliseconds(1));
    }
}

TEST_CASE("a session's first steps are looked for a sixteenth of their time later, at most a millisecond") {
    using std::chrono::microseconds;
    const auto until_look = [](std::chrono::nanoseconds since_begun) {
        return until_look_for_logits({}, kBegin, since_begun);
    };
    CHECK(until_look({}) == microseconds(50));
    CHECK(until_look(std::chrono::milliseconds(1)) == std::chrono::nanoseconds(62'500));
    CHECK(until_look(std::chrono::milliseconds(10)) == microseconds(625));
    CHECK(until_look(std::chrono::milliseconds(100)) == microseconds(1000));
    CHECK(until_look(std::chrono::seconds(10)) == microseconds(1000));
}
