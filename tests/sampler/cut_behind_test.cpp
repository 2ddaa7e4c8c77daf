// First filters behind a top-n sigma or a dynamic temperature: what these keep or make of the whole row holds
// for the part of it that the first filters let through.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>

#include "edge_cases.h"
#include "lean_fixture.h"
#include "sampler/formulas.h"
#include "sampler/reference/decide.h"
#include "testing/agreement.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

constexpr std::uint32_t kVocab = 3000;

// A bulk, and above it some tokens that a min-p keeps: their deviation and their entropy are not the row's.
void fill_peaked(LmCase& of, std::mt19937_64& generator) {
    of.shape.dtype = proto::Dtype::fp32;
    of.logits.resize(kVocab);
    for (float& logit : of.logits) logit = static_cast<float>(generator() % 1024) / -128.0F;
    for (int i = 0; i < 60; ++i) {
        const std::uint32_t token = static_cast<std::uint32_t>(generator()) % kVocab;
        of.logits[token] = 5.0F + static_cast<float>(generator() % 1024) / 200.0F;
    }
    of.prompt.clear();
    of.output.clear();
}

double temperature_of(const LmCase& of) {
    EntropySums sums;
    const Weigher weigher{*std::max_element(of.logits.begin(), of.logits.end()), 1.0};
    for (const float logit : of.logits) sums.add(weigher, logit, 1);
    return dynamic_temperature(of.params, entropy_of(sums), of.logits.size());
}

// Of the whole row, and of a part of it.
void check_against_reference(const LmCase& of, Workspace& workspace) {
    SentParts parts;
    parts.best = 8;
    parts.listed = 200;
    parts.spread = true;
    LeanRow row(of.logits, of.shape, 1, parts);
    const reference::Outcome expected = reference::decide(row.whole(), of.request);
    const proto::Decision ours = decide_once(row.whole(), of.request, workspace);
    INFO("path " << name_of(workspace.answer().path) << "; " << describe(of));
    const std::string by_row =
        difference(outcome_of(ours, workspace.answer()), expected, Logprobs::within_error);
    REQUIRE(by_row.empty());
    const std::string by_part =
        difference(decide_lean(row, of.request, workspace).outcome, expected, Logprobs::within_error);
    REQUIRE(by_part.empty());
}

}  // namespace

TEST_CASE("a large top-k beside a min-p leaves the top-n-sigma before it that of the whole row") {
    std::mt19937_64 generator(20261201);
    Workspace workspace(kVocab);
    LmCase of;
    for (int number = 0; number < 20; ++number) {
        fill_peaked(of, generator);
        race_all(of, 1.0, generator());
        of.params.top_n_sigma = 1.0;
        of.params.min_p = 0.05;
        of.params.top_k = 2000;
        of.params.support = 1000;
        check_against_reference(of, workspace);
    }
}

TEST_CASE("a large top-k beside a min-p leaves the dynamic temperature before it that of the whole row") {
    std::mt19937_64 generator(20261202);
    Workspace workspace(kVocab);
    LmCase of;
    fill_peaked(of, generator);
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        race_all(of, 1.5, seed);
        of.params.dynatemp_range = 0.5;
        of.params.min_p = 0.05;
        of.params.top_k = 2000;
        check_against_reference(of, workspace);
    }
}

TEST_CASE("a top-n-sigma behind a min-p at a dynamic temperature is that of the tokens the min-p keeps") {
    std::mt19937_64 generator(20261203);
    Workspace workspace(kVocab);
    LmCase of;
    for (int number = 0; number < 200; ++number) {
        fill_peaked(of, generator);
        race_all(of, 0.8, generator());
        of.params.dynatemp_range = 0.4;
        of.params.min_p = 0.02;
        of.params.top_n_sigma = std::array{0.5, 1.0, 1.5}[generator() % 3];
        of.params.order = {proto::Step::temperature, proto::Step::min_p, proto::Step::top_n_sigma};
        check_against_reference(of, workspace);
    }
}

// At the lowest temperature that sums in float leave possible two tokens pass the min-p, and the sigma keeps
// the first. At the temperature itself two more pass, far below, and the sigma keeps both of the first. At
// the highest so many pass that their deviation is small, and it keeps the first alone again.
TEST_CASE("what a top-n-sigma behind a min-p keeps at two temperatures it may not keep between them") {
    Workspace workspace(kVocab);
    LmCase of;
    of.shape.dtype = proto::Dtype::fp32;
    of.logits.assign(kVocab, -20.0F);
    of.logits[700] = 0.0F;
    of.logits[1900] = -0.8F;
    race_all(of, 1.0, 0);
    of.params.dynatemp_range = 0.5;
    of.params.min_p = 0.05;
    of.params.top_n_sigma = 1.0;
    of.params.order = {proto::Step::temperature, proto::Step::min_p, proto::Step::top_n_sigma};
    constexpr double kOff = 3e-6;
    for (int rounds = 0; rounds < 100; ++rounds) {
        const double edge = std::log(of.params.min_p) * temperature_of(of);
        std::fill_n(of.logits.begin() + 100, 2, static_cast<float>(edge * (1.0 - kOff)));
        std::fill_n(of.logits.begin() + 200, 60, static_cast<float>(edge * (1.0 + kOff)));
    }
    int second = 0;
    for (of.params.seed = 0; of.params.seed < 40; ++of.params.seed) {
        check_against_reference(of, workspace);
        second += decide_once(RowFixture(of.logits, of.shape, 1).view(), of.request, workspace).token == 1900;
    }
    CHECK(second > 4);
}

}  // namespace croupier::sampler::test
