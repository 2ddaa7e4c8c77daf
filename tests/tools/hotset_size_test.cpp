// `croupier hotset size` as a process, with generated rows.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "testing/logit_rows.h"
#include "testing/workplace.h"

namespace croupier::tools {

using namespace testing;
namespace {

constexpr std::uint32_t kVocab = 4000;

void write_inputs(const Workplace& here) {
    here.write("rows.bf16", bf16_rows(kVocab, 3));
    here.write("short.bf16", std::string(7999, 'x'));
    here.write("hot.i32", identity_order(kVocab));
}

std::string refusal(const Workplace& here, const std::string& arguments) {
    const Ended ended = here.run("hotset size --vocab 4000 --rounds 4 --html size.html " + arguments);
    CHECK(ended.status == 1);
    CHECK_FALSE(std::filesystem::exists(here.path() / "size.html"));
    return ended.output;
}

}  // namespace

TEST_CASE("size: measures every size, computes exact coverage, and writes a page") {
    const Workplace here;
    write_inputs(here);
    const Ended ended = here.run(
        "hotset size --rows rows.bf16 --hot hot.i32 --vocab 4000 --rounds 40 --sizes 64,200,1024,4000 "
        "--save size.json --html size.html");
    INFO(ended.output);
    REQUIRE(ended.status == 0);
    const auto json = nlohmann::json::parse(here.bytes_of("size.json"));
    const auto& grid = json["grid"];
    REQUIRE(grid.size() == 4);
    CHECK(grid[1]["hot"] == 256);
    CHECK(grid[3]["alpha"].get<double>() == Approx(1.0));
    CHECK(grid[0]["alpha"].get<double>() == Approx(mass_of_first(kVocab, 3, 64, 0.8)).epsilon(1e-4));
    for (std::size_t i = 0; i < grid.size(); ++i) {
        CHECK(grid[i]["rho"].get<double>() >= 1.0);
        // The measured mean of 120 draws is near the expectation.
        CHECK(grid[i]["proposals"].get<double>() == Approx(grid[i]["rho"].get<double>()).epsilon(0.5));
        if (i > 0) CHECK(grid[i]["rho"] < grid[i - 1]["rho"]);
    }
    const Ended printed =
        here.run("hotset size --rows rows.bf16 --hot hot.i32 --vocab 4000 --rounds 4 --json");
    CHECK(nlohmann::json::parse(printed.output)["grid"].size() > 4);
    const std::string page = here.bytes_of("size.html");
    CHECK_THAT(page,
               Catch::Contains("1 / F(H)") && Catch::Contains("residuals") && Catch::Contains("</html>"));
    CHECK_THAT(page, !Catch::Contains("http") && !Catch::Contains("<script"));
}

TEST_CASE("size: refuses invalid input and says what is allowed") {
    const Workplace here;
    write_inputs(here);
    const std::string inputs = "--rows rows.bf16 --hot hot.i32 ";
    CHECK_THAT(refusal(here, "--rows none.bf16 --hot hot.i32"), Catch::Contains("none.bf16 cannot be read"));
    CHECK_THAT(refusal(here, "--rows rows.bf16 --hot none.hot"), Catch::Contains("none.hot"));
    CHECK_THAT(refusal(here, "--rows short.bf16 --hot hot.i32"),
               Catch::Contains("not a whole number of rows of 4000"));
    CHECK_THAT(refusal(here, inputs + "--sizes 64,128,5000"),
               Catch::Contains("5000 ids; allowed: 0 to 4000"));
    CHECK_THAT(refusal(here, inputs + "--sizes 1,2,3"), Catch::Contains("a fit needs 3 or more"));
    CHECK_THAT(refusal(here, inputs + "--temperature 0"), Catch::Contains("--temperature is 0"));
}

}  // namespace croupier::tools
