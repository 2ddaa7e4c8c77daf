#include "shm/wait_strategy.h"

#include <catch2/catch.hpp>

using namespace croupier::shm;
using namespace std::chrono_literals;

namespace {

// How many of `looks` fruitless looks ended in a sleep.
int sleeps_in(WaitStrategy& strategy, int looks, std::size_t found = 0) {
    int sleeps = 0;
    for (int i = 0; i < looks; ++i) strategy.idle(found, [&](std::chrono::nanoseconds) { ++sleeps; });
    return sleeps;
}

}  // namespace

TEST_CASE("spin never sleeps and sleep always does, for as long as it was told") {
    WaitStrategy spin({WaitMode::spin, 20us, 200us});
    CHECK(sleeps_in(spin, 1000) == 0);
    WaitStrategy sleep({WaitMode::sleep, 20us, 200us});
    std::chrono::nanoseconds longest{};
    sleep.idle(0, [&](std::chrono::nanoseconds timeout) { longest = timeout; });
    CHECK(longest == 200us);
}

TEST_CASE("adaptive sleeps only after its patience, and work renews the patience") {
    WaitStrategy patient({WaitMode::adaptive, std::chrono::hours(1), 200us});
    CHECK(sleeps_in(patient, 1000) == 0);
    WaitStrategy impatient({WaitMode::adaptive, 0us, 200us});
    CHECK(sleeps_in(impatient, 10) == 10);
    CHECK(sleeps_in(impatient, 10, 1) == 0);
}
