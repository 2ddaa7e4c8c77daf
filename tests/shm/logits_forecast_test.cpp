// Who waits for logits is awake when they come at the pace of those before, and sleeps between them.
#include "shm/logits_forecast.h"

#include <catch2/catch.hpp>

using croupier::shm::LogitsForecast;

namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kBegin = 1000 * kMs;

LogitsForecast of_steps_every(std::uint64_t ns, std::uint64_t steps) {
    LogitsForecast forecast;
    for (std::uint64_t step = 0; step < steps; ++step) forecast.note(step, kBegin + step * ns);
    return forecast;
}

}  // namespace

TEST_CASE("nothing is forecast of a session's first step", "[forecast]") {
    LogitsForecast forecast;
    CHECK_FALSE(forecast.due(kBegin));
    CHECK(forecast.until_due(kBegin) == 0);
    forecast.note(7, kBegin);
    CHECK_FALSE(forecast.due(kBegin));
    CHECK_FALSE(forecast.due(kBegin + 5 * kMs));
    CHECK(forecast.until_due(kBegin) == 0);
    CHECK(forecast.around(kBegin + 5 * kMs).until == LogitsForecast::kNone);
    CHECK(forecast.around(kBegin + 5 * kMs).since == LogitsForecast::kNone);
}

TEST_CASE("logits are due around the time that steps took before, no earlier and not for ever",
          "[forecast]") {
    const LogitsForecast forecast = of_steps_every(5 * kMs, 20);
    const std::uint64_t last = kBegin + kMs * 5 * 19;
    CHECK_FALSE(forecast.due(last + 1));
    CHECK_FALSE(forecast.due(last + 4 * kMs));
    CHECK(forecast.due(last + 5 * kMs - 300'000));
    CHECK(forecast.due(last + 5 * kMs));
    CHECK(forecast.due(last + 5 * kMs + 300'000));
    CHECK_FALSE(forecast.due(last + 6 * kMs));
    CHECK(forecast.around(last + 2 * kMs).until == 3 * kMs);
    CHECK(forecast.around(last + 2 * kMs).since == LogitsForecast::kNone);
    CHECK(forecast.around(last + 9 * kMs).since == 4 * kMs);
    CHECK(forecast.around(last + 9 * kMs).until == LogitsForecast::kNone);
    CHECK(forecast.until_due(last + 1 * kMs) > 3 * kMs);
    CHECK(forecast.until_due(last + 1 * kMs) < 4 * kMs);
    CHECK(forecast.until_due(last + 5 * kMs) == 0);
    CHECK(forecast.until_due(last + 50 * kMs) == 0);
}

TEST_CASE("one long step does not keep samplers awake between the usual ones", "[forecast]") {
    LogitsForecast forecast = of_steps_every(5 * kMs, 10);
    const std::uint64_t late = kBegin + kMs * 5 * 9 + 60 * kMs;
    forecast.note(10, late);
    CHECK(forecast.due(late + 5 * kMs));
    CHECK_FALSE(forecast.due(late + 8 * kMs));
    CHECK_FALSE(forecast.due(late + 30 * kMs));
    CHECK(forecast.due(late + 60 * kMs));
}

TEST_CASE("steps of two microbatches, in turn, are due at both of their times", "[forecast]") {
    LogitsForecast forecast;
    std::uint64_t at = kBegin;
    for (std::uint64_t step = 0; step < 20; ++step)
        forecast.note(step, at += step % 2 == 0 ? 2 * kMs : 8 * kMs);
    CHECK(forecast.due(at + 2 * kMs));
    CHECK_FALSE(forecast.due(at + 5 * kMs));
    CHECK(forecast.until_due(at + 5 * kMs) > 2 * kMs);
    CHECK(forecast.due(at + 8 * kMs));
    CHECK_FALSE(forecast.due(at + 10 * kMs));
}

TEST_CASE("steps faster than the margin are due at once", "[forecast]") {
    const LogitsForecast forecast = of_steps_every(60'000, 10);
    CHECK(forecast.due(kBegin + std::uint64_t{60'000} * 9 + 1));
}

TEST_CASE("an idle engine, an older step and a gap leave the pace as it was", "[forecast]") {
    LogitsForecast forecast = of_steps_every(5 * kMs, 10);
    std::uint64_t last = kBegin + kMs * 5 * 9;
    forecast.note(3, last + kMs);
    CHECK(forecast.due(last + 5 * kMs));
    last += 3000 * kMs;
    forecast.note(10, last);
    CHECK(forecast.due(last + 5 * kMs));
    CHECK_FALSE(forecast.due(last + 12 * kMs));
    forecast.note(15, last + 2 * kMs);
    CHECK(forecast.due(last + 7 * kMs));
    CHECK_FALSE(forecast.due(last + 3 * kMs));
}

TEST_CASE("a forecast for long steps notes them, and samplers' own does not", "[forecast]") {
    LogitsForecast samplers;
    LogitsForecast longer(10'000 * kMs);
    for (LogitsForecast* each : {&samplers, &longer}) {
        each->note(0, kBegin);
        each->note(1, kBegin + 250 * kMs);
    }
    const std::uint64_t now = kBegin + 300 * kMs;
    CHECK(samplers.around(now).until == LogitsForecast::kNone);
    CHECK_FALSE(samplers.due(now + 200 * kMs));
    CHECK(longer.around(now).until == 200 * kMs);
    longer.note(2, kBegin + 11'000 * kMs);
    CHECK(longer.around(kBegin + 11'000 * kMs).until == 250 * kMs);
}
