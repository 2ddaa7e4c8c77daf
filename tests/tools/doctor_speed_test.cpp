// What the doctor says of cores by what it measured of them, and that it waits for none that is not had.
#include <latch>
#include <memory>

#include "tests/tools/doctor_asker.h"
#include "tools/doctor/speed_check.h"

using namespace croupier::testing;
using namespace croupier::tools::doctor;
using Catch::Contains;
using namespace std::chrono_literals;

TEST_CASE("doctor: a core is judged by windows in which it was had, and not by those that others shared") {
    const CoreSpeed busy = speed_of(3, {{250, 0.4}, {900, 0.92}, {300, 0.89}});
    CHECK(busy.core == 3);
    CHECK(busy.turns_per_us == 900);
    CHECK(busy.share == 0.92);
    const CoreSpeed never = speed_of(3, {{250, 0.4}, {990, 0.6}});
    CHECK(never.turns_per_us == 0);
    CHECK(never.share == 0.6);
    // It wakes up: the best counts.
    CHECK(speed_of(3, {{500, 1.0}, {1000, 1.0}}).turns_per_us == 1000);
}

TEST_CASE("doctor: a core that is slow while it is had is told apart from one that others use") {
    const Finding slow = judge_speeds({{{0, 1000, 1.0}, {1, 500, 1.0}}}, false);
    CHECK(slow.level == Level::slower);
    CHECK_THAT(slow.what, Contains("core 1 does 50 % of the work of core 0") && Contains("throttled"));
    const Finding used = judge_speeds({{{0, 1000, 1.0}, {1, 0, 0.4}}}, false);
    CHECK(used.level == Level::slower);
    CHECK_THAT(used.what, Contains("core 1 was available 40 %") && Contains("other processes use it"));
    CHECK_THAT(judge_speeds({{{1, 0, 0.4}}}, false).what, Contains("other processes use it"));
    const Finding served = judge_speeds({{{0, 1000, 1.0}, {1, 0, 0.4}}}, true);
    CHECK(served.level == Level::skipped);
    CHECK_THAT(served.what, Contains("too busy to measure"));
    CHECK_FALSE(served.remedy.empty());
    const Finding some = judge_speeds({{{0, 1000, 1.0}, {1, 0, 0.7}, {2, 990, 0.95}}}, false);
    CHECK(some.level == Level::fine);
    CHECK_THAT(some.what, Contains("2 cores of samplers measured: the slowest has 99 %"));
    CHECK(judge_speeds({{{1, 0, 0.7}}}, false).level == Level::fine);
}

TEST_CASE("doctor: a core that is not had in time is not waited for") {
    // The thread that waits for its turn may outlive the question.
    const auto turn = std::make_shared<std::latch>(1);
    const CoreSpeeds speeds = measure_cores({0, 1}, 1ms, [turn](std::uint32_t core) {
        turn->wait();
        return std::optional(CoreSpeed{core, 1000, 1.0});
    });
    turn->count_down();
    CHECK_FALSE(speeds.in_time);
    CHECK(speeds.cores.empty());
    const Finding busy = judge_speeds(speeds, false);
    CHECK(busy.level == Level::skipped);
    CHECK_THAT(busy.what, Contains("too busy to measure"));
    CHECK_FALSE(busy.remedy.empty());
}

TEST_CASE("doctor: of many cores some are measured, and one that this process may not use is left out") {
    std::vector<std::uint32_t> cores(200);
    for (std::uint32_t core = 0; core < 200; ++core) cores[core] = core;
    const CoreSpeeds speeds = measure_cores(cores, 10min, [](std::uint32_t core) {
        return core == 0 ? std::nullopt : std::optional(CoreSpeed{core, 1000, 1.0});
    });
    CHECK(speeds.in_time);
    CHECK((speeds.cores.size() > 20 && speeds.cores.size() <= 32));
    CHECK(speeds.cores.front().core != 0);
    CHECK(speeds.cores.back().core > 180);
    CHECK(measure_cores({4'000'000}, 10min).cores.empty());
}

TEST_CASE("doctor: two cores are not measured in less than their windows take, and the check is skipped") {
    const Workplace place;
    place.write("croupierd.yaml", "samplers: {count: 2}\n");
    const std::string question = "--skip daemon --config croupierd.yaml ";
    // Where there is one core alone, it is measured once.
    const bool two = ask_doctor(place, question).finding("cpu.cores")["facts"]["usable"] >= 2;
    if (!two) return;
    const auto told = ask_doctor(place, question + "--patience 10");
    CHECK(told.level("cpu.speed") == "skipped");
    CHECK_THAT(told.what("cpu.speed"), Contains("too busy to measure"));
    CHECK_THAT(told.remedy("cpu.speed"), Contains("--skip cpu.speed"));
}
