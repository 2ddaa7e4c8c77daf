// Every program refuses nan and other non-numbers at once, names the option and says what is allowed.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "testing/workplace.h"

namespace croupier {
namespace {

constexpr int kWrongQuestion = 2;

void refuses(const testing::Workplace& place, const std::string& command, const std::string& option,
             const std::string& allowed) {
    for (const char* wrong : {"nan", "-nan", "inf", "-inf", "-1", "1e400"}) {
        const std::string arguments = fmt::format("{} {}={}", command, option, wrong);
        const testing::Ended ended = place.run(arguments);
        INFO(arguments << ": " << ended.output);
        CHECK(ended.status == kWrongQuestion);
        CHECK(ended.output.find(fmt::format("{}: '{}' is invalid; allowed: a number from {}", option, wrong,
                                            allowed)) != std::string::npos);
    }
}

}  // namespace

TEST_CASE("plan: an option refuses values that are not numbers") {
    const testing::Workplace place;
    refuses(place, "plan", "--stage-ms", "0.001 to 10000");
    refuses(place, "plan", "--of-stage", "0.01 to 1");
    refuses(place, "plan measure --save x.json", "--stage-ms", "0 to 10000");
    CHECK(place.run("plan measure --save x.json --batch 16,0").status == kWrongQuestion);
    CHECK(place.run("plan measure --save x.json --vocab 32000,nan").status == kWrongQuestion);
    CHECK_FALSE(std::filesystem::exists(place.path() / "x.json"));
}

TEST_CASE("sim: an option refuses values that are not numbers") {
    const testing::Workplace place;
    refuses(place, "sim --json", "--stage-ms", "0 to 10000");
    refuses(place, "sim --json", "--arrival-rate", "0 to 1e+06");
}

TEST_CASE("bench: an option refuses values that are not numbers") {
    const testing::Workplace place;
    const std::string rows = " --rows none.bf16 --vocab 64";
    refuses(place, "bench cliffs" + rows, "--most", "1 to 1e+09");
    refuses(place, "bench controller --hot none.hot" + rows, "--temperature", "0.01 to 100");
    refuses(place, "bench decide" + rows, "--temperatures", "0.01 to 100");
    refuses(place, "bench step" + rows, "--temperatures", "0.01 to 100");
    refuses(place, "bench rounding" + rows, "--temperatures", "0.01 to 100");
    refuses(place, "bench rounding" + rows, "--sigma", "1e-09 to 10");
}

TEST_CASE("hotset: an option refuses values that are not numbers before a file is read") {
    const testing::Workplace place;
    const auto says = [&](const std::string& arguments, const char* option) {
        for (const char* wrong : {"nan", "inf", "-1"}) {
            const testing::Ended ended = place.run("hotset " + arguments + " " + option + "=" + wrong);
            INFO(ended.output);
            CHECK(ended.status == 1);
            CHECK(ended.output.find(std::string(option) + " is ") != std::string::npos);
        }
    };
    says("build none.txt --vocab 64 --model M -o x.hot", "--smoothing");
    says("build none.txt --vocab 64 --model M -o x.hot", "--weight");
    says("size --rows none.bf16 --hot none.hot", "--temperature");
}

}  // namespace croupier
