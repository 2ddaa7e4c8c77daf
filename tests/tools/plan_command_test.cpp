// `croupier plan` as a process, with real runs of croupier sim.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "sim/request_mixes.h"
#include "testing/workplace.h"
#include "tests/tools/imagined_host.h"
#include "tools/plan/sim_run.h"

namespace croupier::tools {

using Json = nlohmann::json;

TEST_CASE("plan: measures, saves the measurement, gets the same plan from it, and verifies it") {
    const testing::Workplace place;
    const std::string engine = "--vocab 512 --batch 4 --stage-ms 1 --mix fixed ";
    const testing::Ended measured = place.run("plan " + engine + "--json --check --save here.json");
    INFO(measured.output);
    REQUIRE(measured.status == 0);
    // Progress messages may come before it.
    const Json plan =
        Json::parse(measured.output.substr(std::min(measured.output.find('{'), measured.output.size())));
    CHECK(plan.at("samplers") >= 1);
    CHECK(plan.at("check").at("runs") == kCheckingRuns);
    CHECK(plan.at("check").at("steps") >= 64 * kCheckingRuns);
    CHECK(plan.at("runs").get<std::uint32_t>() % kMeasuringRuns == 0);
    CHECK(plan.at("check").at("p50_us") > 0.0);
    CHECK(plan.at("process_bytes") > 1U << 20U);

    const testing::Ended again = place.run("plan " + engine + "--from here.json --json");
    REQUIRE(again.status == 0);
    CHECK(Json::parse(again.output).at("step") == plan.at("step"));
    const testing::Ended text = place.run("plan " + engine + "--from here.json");
    CHECK(text.output.find("T_cycle = 1.00 ms") != std::string::npos);
    CHECK(place.run("plan " + engine + "--from here.json --kubernetes").output.find("limits:") !=
          std::string::npos);
    CHECK(place.run("plan --from here.json --vocab 1024").status == 1);
}

TEST_CASE(
    "plan: measures every vocabulary, batch, rank, mix and number of samplers with every stage, without "
    "extra runs") {
    const testing::Workplace place;
    const testing::Ended measured = place.run(
        "plan measure --vocab 256,512 --batch 2,4 --tp 1,2 --samplers 1,2 --mix fixed --stage-ms "
        "0.5,1 "
        "--save here.json");
    INFO(measured.output);
    REQUIRE(measured.status == 0);
    const Json steps = Json::parse(place.bytes_of("here.json")).at("steps");
    CHECK(steps.size() == 16);
    for (const char* factor : {"vocab", "batch", "tp", "samplers"}) {
        std::map<Json, std::map<double, int>> met;
        for (const Json& step : steps) ++met[step.at(factor)][step.at("stage_ms")];
        INFO(factor);
        CHECK(met.size() == 2);
        for (const auto& [value, stages] : met) CHECK(stages == std::map<double, int>{{0.5, 4}, {1.0, 4}});
    }
}

TEST_CASE("plan: measures with the requested stage, but with at most 20 ms") {
    const testing::Workplace place;
    for (const auto& [asked, measured] : {std::pair("7.5", 7.5), std::pair("30", 20.0)}) {
        const testing::Ended ended = place.run(
            std::string(
                "plan --vocab 256 --batch 1 --samplers 1 --mix fixed --json --save here.json --stage-ms ") +
            asked);
        INFO(ended.output);
        REQUIRE(ended.status == 0);
        for (const Json& step : Json::parse(place.bytes_of("here.json")).at("steps"))
            CHECK(step.at("stage_ms") == measured);
        CHECK((ended.output.find("that of 20, the nearest measured value") != std::string::npos) ==
              (measured == 20.0));
    }
}

TEST_CASE("plan: supports every mix of croupier sim and fits each to its own runs only") {
    const testing::Workplace place;
    Measurement measurement = imagined();
    Measurement dearer = imagined();
    for (MeasuredStep& step : measurement.steps) step.setting.requests.mix = "fixed";
    for (MeasuredStep& step : dearer.steps) step.p50_us *= 3.0;
    measurement.steps.insert(measurement.steps.end(), dearer.steps.begin(), dearer.steps.end());
    save(measurement, place.path() / "two.json");
    const auto p50_of = [&](const std::string& mix) {
        const testing::Ended ended =
            place.run("plan --from two.json --json --batch 32 --samplers 4 --mix " + mix);
        return ended.status == 0 ? Json::parse(ended.output).at("step").at("p50_us").get<double>() : 0.0;
    };
    CHECK(p50_of("fixed") > 0.0);
    CHECK(p50_of("mixed") == Approx(3.0 * p50_of("fixed")).epsilon(0.01));
    for (const char* mix : sim::kRequestMixes) {
        const std::string name = mix;
        INFO(name);
        const testing::Ended simulated =
            place.run("sim --json --vocab 512 --batch 1 --steps 2 --output-max 4 --mix " + name);
        CHECK(simulated.status == 0);
        if (name == "fixed" || name == "mixed") continue;
        const testing::Ended refused = place.run("plan --from two.json --mix " + name);
        CHECK(refused.status == 1);
        CHECK(refused.output.find("there is no measurement for: mix " + name + ",") != std::string::npos);
        CHECK(refused.output.find("`croupier plan measure --mix " + name + " --save FILE`") !=
              std::string::npos);
    }
}

TEST_CASE("plan: reports errors and writes no file") {
    const testing::Workplace place;
    const auto said = [&](const std::string& arguments, const char* what) {
        const testing::Ended ended = place.run("plan " + arguments);
        INFO(ended.output);
        CHECK(ended.status != 0);
        CHECK(ended.output.find(what) != std::string::npos);
    };
    said("--from nothing.json", "nothing.json: No such file or directory");
    said("--vocab 512 --batch 4 --mix nonsense --save new.json", "nonsense");
    said("--vocab 3", "--vocab");
    said("--rows some.bf16", "--hot");
    // These errors come before measuring, which would fail with another message.
    said("--shm-dir /dev/null/no --save /nonexistent/x.json", "cannot write /nonexistent/x.json");
    said("measure --shm-dir /dev/null/no --save /nonexistent/x.json", "cannot write /nonexistent/x.json");
    said("--shm-dir /dev/null/no --save .", "cannot write .");
    said("--shm-dir /dev/null/no --batch 2 --samplers 8", "--samplers is 8");
    said("measure --mix fixed,nonsense --save new.json",
         "--mix: 'nonsense' is invalid; allowed: greedy, plain, full, fixed,");
    said("measure --vocab 512 --batch 4", "--save");
    said("measure --stage-ms 5,-1 --save new.json", "--stage-ms");
    said("measure --stage-ms 5,soon --save new.json", "--stage-ms");
    place.write("bad.json", "{\"format\": \"\xff\xfe\"}");
    said("--from bad.json", "bad.json: it is not valid JSON at byte 13");
    CHECK_FALSE(std::filesystem::exists(place.path() / "new.json"));
    const Json answer = Json::parse(place.run("plan --from bad.json --json").output);
    CHECK(answer.at("error").get<std::string>().find("bad.json") != std::string::npos);
}

}  // namespace croupier::tools
