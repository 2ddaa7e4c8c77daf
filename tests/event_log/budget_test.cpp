// Lines over an event's limit are counted, and the count is said once.
#include "event_log/budget.h"

#include <catch2/catch.hpp>

using namespace croupier::event_log;
using std::chrono::milliseconds;

namespace {

std::size_t admitted(Budget& budget, Event event, std::size_t lines, Budget::Clock::time_point now) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < lines; ++i) count += budget.admit(event, now) ? 1U : 0U;
    return count;
}

const Budget::Clock::time_point kBegin{std::chrono::hours(100)};

}  // namespace

TEST_CASE("an event has a hundred lines at once, then ten a second, and never more than a hundred") {
    Budget budget;
    CHECK(admitted(budget, Event::open_refused, 1000, kBegin) == 100);
    CHECK(admitted(budget, Event::open_refused, 1000, kBegin + milliseconds(500)) == 5);
    CHECK(admitted(budget, Event::open_refused, 1000, kBegin + milliseconds(1500)) == 10);
    CHECK(admitted(budget, Event::open_refused, 1000, kBegin + std::chrono::hours(5)) == 100);
}

TEST_CASE("an event that is over its limit takes nothing from another") {
    Budget budget;
    admitted(budget, Event::open_refused, 1000, kBegin);
    CHECK(admitted(budget, Event::sampler_lost, 3, kBegin) == 3);
}

TEST_CASE("what was left out is told after a second, of each event, once") {
    Budget budget;
    admitted(budget, Event::open_refused, 130, kBegin);
    admitted(budget, Event::key_refused, 107, kBegin + milliseconds(900));
    CHECK(budget.take_left_out(kBegin + milliseconds(999)).empty());
    auto told = budget.take_left_out(kBegin + milliseconds(1000));
    REQUIRE(told.size() == 1);
    CHECK(told[0].event == Event::open_refused);
    CHECK(told[0].lines == 30);
    told = budget.take_left_out(Budget::Clock::time_point::max());
    REQUIRE(told.size() == 1);
    CHECK(told[0].event == Event::key_refused);
    CHECK(told[0].lines == 7);
    CHECK(budget.take_left_out(Budget::Clock::time_point::max()).empty());
}
