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
}

TEST_CASE("logits are due around the time that steps took before, no earlier and not for ever",
          "[forecast]") {
    const LogitsForecast forecast = of_steps_every(5 * kMs, 20);
    const std::uint64_t last = kBegin + 19 * 5 * kMs;
    CHECK_FALSE(forecast.due(last + 1));
    CHECK_FALSE(forecast.due(last + 4 * kMs));
    CHECK(forecast.due(last + 5 * kMs - 300'000));
    CHECK(forecast.due(last + 5 * kMs));
    CHECK(forecast.due(last + 5 * kMs + 300'000));
    CHECK_FALSE(forecast.due(last + 6 * kMs));
    CHECK(forecast.until_due(last + 1 * kMs) > 3 * kMs);
    CHECK(forecast.until_due(last + 1 * kMs) < 4 * kMs);
    CHECK(forecast.until_due(last + 5 * kMs) == 0);
    CHECK(forecast.until_due(last + 50 * kMs) == 0);
}

TEST_CASE("one long step changes no forecast by more than twice the usual time", "[forecast]") {
    LogitsForecast forecast = of_steps_every(5 * kMs, 10);
    const std::uint64_t late = kBegin + 9 * 5 * kMs + 60 * kMs;
    forecast.note(10, late);
    CHECK(forecast.due(late + 5 * kMs));
    CHECK(forecast.due(late + 10 * kMs));
    CHECK_FALSE(forecast.due(late + 12 * kMs));
}

TEST_CASE("steps faster than the margin are due at once", "[forecast]") {
    const LogitsForecast forecast = of_steps_every(60'000, 10);
    CHECK(forecast.due(kBegin + 9 * 60'000 + 1));
}

TEST_CASE("an idle engine, an older step and a gap leave the pace as it was", "[forecast]") {
    LogitsForecast forecast = of_steps_every(5 * kMs, 10);
    std::uint64_t last = kBegin + 9 * 5 * kMs;
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
