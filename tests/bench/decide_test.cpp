// `croupier bench decide`: its cases and layouts, with generated rows.
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/decide/bench_cases.h"
#include "bench/decide/bench_sequence.h"
#include "testing/logit_rows.h"
#include "testing/workplace.h"

namespace croupier::bench {

using namespace testing;
namespace {

constexpr std::uint32_t kVocab = 4000;  // no multiple of 64, and no rank's share of it is

constexpr const char* kCommand = "bench decide --rows rows.bf16 --vocab 4000 --rounds 2 --history 100 ";

}  // namespace

TEST_CASE("bench decide: decides all cases with every dtype and number of ranks") {
    const Workplace here;
    here.write("rows.bf16", bf16_rows(kVocab, 2));
    const Ended ended =
        here.run(std::string(kCommand) + "--cases all --dtype bf16,fp16,fp32 --ranks 1,4,4x64 --json");
    INFO(ended.output);
    REQUIRE(ended.status == 0);
    // On a slow machine, progress messages come before it.
    const auto cases = nlohmann::json::parse(ended.output.substr(ended.output.find('{'))).at("cases");
    std::size_t settings = 0;
    for (const BenchCase& each : all_bench_cases()) settings += each.params.temperature == 0.0 ? 9 : 27;
    CHECK(cases.size() == settings);
    CHECK_FALSE(cases.at("topp T=1 fp32 ranks=4").at("paths").empty());
}

TEST_CASE("bench decide: decides lean rows of every dtype") {
    const Workplace here;
    here.write("rows.bf16", bf16_rows(kVocab, 2));
    const Ended ended =
        here.run(std::string(kCommand) + "--lean --cases full,temperature --dtype bf16,fp16,fp32 --json");
    INFO(ended.output);
    REQUIRE(ended.status == 0);
    const auto cases = nlohmann::json::parse(ended.output.substr(ended.output.find('{'))).at("cases");
    CHECK(cases.size() == 6);
    for (const auto& each : cases) CHECK(each.at("lean").at("tries") >= 1.0);
}

TEST_CASE("bench decide: a row gives the same token in every layout and dtype") {
    const measurement::BenchRows rows = measurement::BenchRows::generated(kVocab, 3);
    for (const char* dtype : {"bf16", "fp32"}) {
        const measurement::LaidRows whole(rows, measurement::dtype_of(dtype), measurement::ranks_of("1"),
                                          false);
        const measurement::LaidRows cut(rows, measurement::dtype_of(dtype), measurement::ranks_of("3"),
                                        false);
        const measurement::LaidRows between(rows, measurement::dtype_of(dtype), measurement::ranks_of("3x64"),
                                            false);
        const measurement::LaidRows column(rows, measurement::dtype_of(dtype), measurement::ranks_of("1"),
                                           true);
        const measurement::LaidRows columns(rows, measurement::dtype_of(dtype), measurement::ranks_of("3"),
                                            true);
        BenchSequence sequence(kVocab, 2);
        const std::vector<std::int32_t> history = {1, 2};
        const CaseRequest request(chosen_cases({"temperature"}).front(), kVocab, 1.0);
        sampler::Workspace workspace(kVocab);
        for (std::uint32_t draw = 0; draw < 60; ++draw) {
            sequence.begin(request, history);
            const auto token = [&](const measurement::LaidRows& each, bool summarised) {
                const std::uint32_t row = draw % rows.count();
                const std::int32_t drawn = sequence.decide(each.view(row, summarised), draw, workspace).token;
                sequence.rewind();
                return drawn;
            };
            const std::int32_t expected = token(whole, false);
            CHECK(token(whole, true) == expected);
            CHECK(token(cut, false) == expected);
            CHECK(token(cut, true) == expected);
            CHECK(token(between, true) == expected);
            CHECK(token(column, false) == expected);
            CHECK(token(column, true) == expected);
            CHECK(token(columns, false) == expected);
            CHECK(token(columns, true) == expected);
        }
    }
}

TEST_CASE("bench decide: refuses invalid input by name") {
    const Workplace here;
    here.write("rows.bf16", bf16_rows(kVocab, 1));
    const auto said = [&here](const std::string& arguments) {
        const Ended ended = here.run(kCommand + arguments);
        CHECK(ended.status != 0);
        return ended.output;
    };
    CHECK_THAT(said("--cases topq"), Catch::Contains("there is no case 'topq'; cases: all, greedy"));
    CHECK_THAT(said("--dtype fp8"), Catch::Contains("dtype is 'fp8'; allowed: bf16, fp16, fp32"));
    CHECK_THAT(said("--ranks 65"), Catch::Contains("ranks is '65'; allowed: 1 to 64"));
    CHECK_THAT(said("--ranks 4x32"), Catch::Contains("ranks is '4x32'"));
    CHECK_THAT(said("--temperatures 0"), Catch::Contains("--temperatures"));
    CHECK_THAT(said("--json --markdown"), Catch::Contains("--json"));
    const Ended history = here.run("bench decide --rows rows.bf16 --vocab 4000 --history 1m");
    CHECK(history.status == 1);
    CHECK_THAT(history.output, Catch::Contains("history is '1m'; allowed: 2 to 1048576"));
}

}  // namespace croupier::bench
