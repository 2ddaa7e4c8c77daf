// The paper's algorithm with penalties, which `croupier bench shvs` compares with Croupier's.
#include "bench/shvs/paper_request.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "bench/decide/bench_cases.h"

namespace croupier::bench {
namespace {

constexpr std::uint32_t kVocab = 4000;
constexpr std::uint32_t kHot = 640;

double weight_of(const measurement::BenchRows& rows, std::uint32_t id, const proto::SamplingParams& params,
                 bool seen, int said) {
    auto value = static_cast<double>(std::bit_cast<float>(std::uint32_t{rows.row(0)[id]} << 16U));
    if (seen) value = value > 0.0 ? value / params.repetition_penalty : value * params.repetition_penalty;
    value -= params.frequency_penalty * said + (said > 0 ? params.presence_penalty : 0.0);
    return std::exp(value / params.temperature);
}

}  // namespace

TEST_CASE("bench shvs: the paper's alpha is the hot set's share of the penalised row, and draws follow it") {
    const measurement::BenchRows rows = measurement::BenchRows::generated(kVocab, 1);
    const BenchCase request = chosen_cases({"temperature+penalties"}).front();
    // The prompt, then the output; one token of each occurs twice.
    const std::vector<std::int32_t> history = {5, 700, 3999, 17, 17, 17, 2500, 2500};
    std::vector<bool> seen(kVocab);
    std::vector<int> said(kVocab);
    for (std::size_t i = 0; i < history.size(); ++i) {
        seen[static_cast<std::size_t>(history[i])] = true;
        if (i >= history.size() / 2) ++said[static_cast<std::size_t>(history[i])];
    }
    double hot = 0.0;
    double all = 0.0;
    for (std::uint32_t id = 0; id < kVocab; ++id) {
        const double weight = weight_of(rows, id, request.params, seen[id], said[id]);
        all += weight;
        if (id < kHot) hot += weight;
    }
    PaperRequest paper(rows, kHot, request.params, history);
    const PaperRequest::Weight tail = paper.tail_of(0);
    constexpr std::uint32_t kDraws = 20000;
    std::uint32_t hot_draws = 0;
    for (std::uint32_t draw = 0; draw < kDraws; ++draw) {
        const PaperRequest::Drawn drawn = paper.draw(0, tail, draw);
        CHECK(drawn.alpha == Approx(hot / all).epsilon(1e-4));
        CHECK(drawn.accepted == (drawn.place < kHot));
        hot_draws += drawn.accepted ? 1 : 0;
    }
    const double deviation = std::sqrt(hot / all * (1.0 - hot / all) / kDraws);
    CHECK(std::abs(hot_draws / static_cast<double>(kDraws) - hot / all) < 6.0 * deviation);
}

}  // namespace croupier::bench
