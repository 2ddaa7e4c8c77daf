// The statistics of `croupier bench tvd`, and the command with generated rows.
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "bench/tvd/softmax.h"
#include "bench/tvd/tally.h"
#include "testing/logit_rows.h"
#include "testing/workplace.h"

namespace croupier::bench {

using namespace testing;
namespace {

constexpr std::uint32_t kDraws = 200000;

std::vector<double> made_up_distribution() {
    std::vector<double> probabilities;
    double total = 0.0;
    for (int i = 0; i < 500; ++i) {
        // Some have none at all, the last ones too.
        probabilities.push_back(i % 7 == 3 || i > 490 ? 0.0 : std::exp(-0.02 * i));
        total += probabilities.back();
    }
    for (double& each : probabilities) each /= total;
    return probabilities;
}

Tally drawn_from(const std::vector<double>& probabilities, const std::vector<std::uint8_t>& cells) {
    const PlainDraws draws(probabilities);
    std::mt19937_64 random(7);
    Tally tally(static_cast<std::uint32_t>(probabilities.size()));
    for (std::uint32_t i = 0; i < kDraws; ++i) {
        tally.add(draws.draw(static_cast<double>(random() >> 11U) * 0x1p-53), cells);
    }
    return tally;
}

nlohmann::json judged(const Workplace& here, const std::string& arguments) {
    here.write("rows.bf16", bf16_rows(4000, 2));
    here.write("hot.i32", identity_order(4000));
    const Ended ended = here.run("bench tvd --rows rows.bf16 --hot hot.i32 --vocab 4000 --json " + arguments);
    INFO(ended.output);
    REQUIRE(ended.status == 0);
    // On a slow machine, progress messages come before it.
    return nlohmann::json::parse(ended.output.substr(ended.output.find('{')));
}

}  // namespace

TEST_CASE("tvd: cells divide a distribution evenly and in order") {
    const std::vector<double> probabilities = made_up_distribution();
    const std::vector<std::uint8_t> cells = cells_of(probabilities);
    std::vector<double> mass(kCells);
    for (std::size_t i = 0; i < cells.size(); ++i) {
        mass[cells[i]] += probabilities[i];
        if (i > 0) CHECK(cells[i] >= cells[i - 1]);
    }
    for (const double each : mass) CHECK(each == Approx(1.0 / kCells).margin(0.025));
}

TEST_CASE("tvd: plain draws follow the distribution and never choose a token without probability") {
    const std::vector<double> probabilities = made_up_distribution();
    const std::vector<std::uint8_t> cells = cells_of(probabilities);
    const Tally tally = drawn_from(probabilities, cells);
    Expected expected(500);
    expected.add(probabilities, cells);
    for (std::size_t i = 0; i < probabilities.size(); ++i) {
        if (probabilities[i] == 0.0) CHECK(tally.by_token[i] == 0);
    }
    const Distance distance = total_variation(tally, expected);
    CHECK(distance.by_token < 0.02);
    CHECK(distance.by_cell < distance.by_token);
    CHECK(PlainDraws(probabilities).draw(1.0 - 0x1p-53) == 490);
}

TEST_CASE("tvd: detects a distribution that favours its first tokens") {
    const std::vector<double> probabilities = made_up_distribution();
    const std::vector<std::uint8_t> cells = cells_of(probabilities);
    std::vector<double> wrong = probabilities;
    for (std::size_t i = 0; i < wrong.size(); ++i) wrong[i] *= i < 30 ? 1.05 : 1.0;
    double total = 0.0;
    for (const double each : wrong) total += each;
    double shifted = 0.0;
    for (std::size_t i = 0; i < wrong.size(); ++i) {
        wrong[i] /= total;
        shifted += std::abs(wrong[i] - probabilities[i]) / 2.0;
    }
    Expected expected(500);
    expected.add(probabilities, cells);
    const double right_distance = total_variation(drawn_from(probabilities, cells), expected).by_cell;
    const double wrong_distance = total_variation(drawn_from(wrong, cells), expected).by_cell;
    CHECK(wrong_distance > right_distance + shifted / 2.0);
}

TEST_CASE("tvd: the sampler's draws are as close to the distribution as the reference's draws") {
    const Workplace here;
    const auto json = judged(here, "--steps 32 --draws 400 --sizes 0,64,1024,4000");
    REQUIRE(json["sizes"].size() == 4);
    for (const auto& each : json["sizes"]) {
        for (const char* way : {"by_token", "by_cell"}) {
            INFO(each.dump());
            CHECK(each[way]["above"].get<double>() < 6.0 * each[way]["deviation"].get<double>());
        }
    }
    CHECK(json["answered"]["largest"].get<double>() < 1e-6);
    // Without a tail, nothing is drawn from it.
    CHECK(json["sizes"][3]["tail"] == 0.0);
    CHECK(json["sizes"][1]["tail"] > 0.0);
}

TEST_CASE("tvd: filtered draws give the reference's tokens on every path") {
    const Workplace here;
    const auto json = judged(here, "--truncated --steps 60 --decisions 30");
    CHECK(json["decisions"] == 1800);
    CHECK(json["compared"] == 7200);
    CHECK(json["by_reference"].get<int>() >= 120);
    CHECK(json["different"] == 0);
}

TEST_CASE("tvd: refuses invalid input") {
    const Workplace here;
    here.write("rows.bf16", bf16_rows(4000, 1));
    here.write("hot.i32", identity_order(4000));
    const std::string inputs = "bench tvd --rows rows.bf16 --hot hot.i32 --vocab 4000 ";
    CHECK_THAT(here.run(inputs + "--draws 0").output, Catch::Contains("--draws"));
    CHECK_THAT(here.run(inputs + "--sizes 4001").output, Catch::Contains("allowed: 0 to 4000"));
    CHECK(here.run(inputs + "--sizes 4001").status == 1);
}

}  // namespace croupier::bench
