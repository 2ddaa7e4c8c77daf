// Of any request, the very value of a filter at which its token changes, found by halving with the reference;
// and what the fast path decides next to it. Bounds that are too narrow show there and nowhere else.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "edge_cases.h"
#include "lean_fixture.h"
#include "lm_cases.h"
#include "request/steps.h"
#include "sampler/row_mass.h"
#include "testing/agreement.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

using proto::SamplingParams;

int cases_to_try() {
    const char* given = std::getenv("CROUPIER_EDGE_CASES");
    return given == nullptr ? 600 : std::atoi(given);
}

struct Knob {
    double SamplingParams::*value;
    double low;
    double high;
};

// The number by which a step that is on is moved; null where no fraction moves it, or only by chance.
std::optional<Knob> knob_of(proto::Step step, const SamplingParams& params) {
    using proto::Step;
    switch (step) {
        case Step::typical_p:
            return Knob{&SamplingParams::typical_p, 0.01, 0.999};
        case Step::min_p:
            return Knob{&SamplingParams::min_p, 1e-6, 1.0};
        case Step::top_n_sigma:
            return Knob{&SamplingParams::top_n_sigma, 0.05, 6.0};
        case Step::top_p:
            return Knob{&SamplingParams::top_p, 1e-3, 0.9999};
        case Step::xtc:
            if (params.xtc_probability == 1.0) return Knob{&SamplingParams::xtc_threshold, 1e-3, 0.5};
            break;
        case Step::temperature:
            if (params.dynatemp_range > 0.0) return Knob{&SamplingParams::dynatemp_range, 0.01, 2.0};
            break;
        case Step::penalties:
        case Step::dry:
        case Step::top_k:
        case Step::end:
        case Step::count_:
            break;
    }
    return std::nullopt;
}

// One of those that the request has; a top-p, where it has none.
Knob knob_of(const SamplingParams& params, std::mt19937_64& generator) {
    std::vector<Knob> found;
    for (const proto::Step step : proto::kDefaultOrder) {
        const auto knob = knob_of(step, params);
        if (knob && request::is_switched_on(params, step)) found.push_back(*knob);
    }
    if (found.empty()) return *knob_of(proto::Step::top_p, params);
    return found[generator() % found.size()];
}

void fill_edge_case(LmCase& of, std::mt19937_64& generator) {
    const std::uint32_t vocab = std::array{64U, 1000U, 2000U, 4097U}[generator() % 4];
    of.order_seed = generator();
    const auto dtype = static_cast<proto::Dtype>(generator() % 3);
    fill_lm_row(of, vocab, dtype, generator);
    of.shape = lm_shape(vocab, 1 + static_cast<std::uint32_t>(generator() % 3), kBlock, dtype, generator);
    // Where a logit's last bits are large.
    const float up = std::array{0.0F, 0.0F, 30.0F, 200.0F}[generator() % 4];
    for (float& logit : of.logits) {
        if (dtype == proto::Dtype::fp32) logit += up;
    }
    fill_lm_request(of, generator);
    of.params.temperature = std::array{0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0, 1.5, 4.0}[generator() % 10];
    of.params.flags = proto::kNoLogprob;
    of.params.logprobs = 0;
    // At low temperatures one token is nearly all there is, unless others stand as high.
    for (auto twins = generator() % 12; twins > 0; --twins) {
        const double below = of.params.temperature * static_cast<double>(generator() % 300) / 100.0;
        const float twin = of.logits[static_cast<std::size_t>(of.best.front())] - static_cast<float>(below);
        const auto id = static_cast<std::size_t>(generator() % vocab);
        of.logits[id] =
            dtype == proto::Dtype::fp32 ? twin : of.logits[static_cast<std::size_t>(of.best.front())];
        of.output.push_back(static_cast<std::int32_t>(id));
    }
    // What was drawn often, and much that was drawn once.
    for (auto times = generator() % 30; times > 0; --times) of.output.push_back(of.best.front());
    for (auto some = generator() % 100; some > 0; --some)
        of.output.push_back(static_cast<std::int32_t>(generator() % vocab));
    if (generator() % 3 == 0) of.params.frequency_penalty = std::array{-0.2, 0.1, 0.5, 1.0}[generator() % 4];
    if (generator() % 2 == 0) {
        of.params.repetition_penalty = 1.0;
        of.params.frequency_penalty = 0.0;
        of.params.presence_penalty =
            of.params.temperature * (static_cast<double>(generator() % 2000) / 1000.0 - 1.0);
    }
}

void bind_anew(LmCase& of) {
    const Request before = of.request;
    bind_request(of);
    of.request.random = before.random;
    of.request.feedback = before.feedback;
    of.request.position_shift = before.position_shift;
    of.request.max_length = 1000;
}

std::int32_t reference_token(LmCase& of, const RowView& row, Knob knob, double value) {
    of.params.*knob.value = value;
    bind_anew(of);
    return reference::decide(row, of.request).decision.token;
}

// Two neighbouring doubles with different tokens.
std::optional<std::pair<double, double>> find_edge(LmCase& of, const RowView& row, Knob knob,
                                                   std::mt19937_64& generator) {
    constexpr int kSteps = 16;
    const auto at = [&](int step) {
        return knob.low * std::pow(knob.high / knob.low, static_cast<double>(step) / kSteps);
    };
    const int first = static_cast<int>(generator() % kSteps);
    for (int i = 0; i < kSteps; ++i) {
        const int step = (first + i) % kSteps;
        double low = at(step);
        double high = at(step + 1);
        const std::int32_t below = reference_token(of, row, knob, low);
        if (reference_token(of, row, knob, high) == below) continue;
        while (true) {
            const double middle = low + (high - low) / 2.0;
            if (middle <= low || middle >= high) return std::pair(low, high);
            (reference_token(of, row, knob, middle) == below ? low : high) = middle;
        }
    }
    return std::nullopt;
}

SentParts random_parts(const LmCase& of, std::mt19937_64& generator) {
    SentParts parts = send_sums(of, std::array{4U, 16U, 48U}[generator() % 3]);
    parts.random = static_cast<std::uint32_t>(generator() % 8);
    parts.error = std::array{0.99, -0.99, 0.0}[generator() % 3] * kSentWeightError;
    parts.block_weights = generator() % 2 == 0;
    if (generator() % 2 == 0) {
        parts.drawn_by = drawn_by(of.request);
        parts.racers = static_cast<std::uint32_t>(generator() % 8);
        parts.summed_before = std::min(2U, parts.racers);
    }
    return parts;
}

}  // namespace

TEST_CASE("next to the value of a filter at which its token changes, the fast path has the reference's") {
    std::mt19937_64 generator(20261208);
    int edges = 0;
    for (int number = 0; number < cases_to_try(); ++number) {
        LmCase of;
        fill_edge_case(of, generator);
        Workspace workspace(static_cast<std::uint32_t>(of.logits.size()));
        const Knob knob = knob_of(of.params, generator);
        const LeanRow plain(of.logits, of.shape, of.order_seed, {});
        const auto edge = find_edge(of, plain.whole(), knob, generator);
        if (!edge) continue;
        ++edges;
        for (const double off :
             {0.0, 1e-15, 1e-13, 1e-11, 1e-9, 1e-8, 1e-7, 1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 1e-3}) {
            for (const double value : {edge->first * (1.0 - off), edge->second * (1.0 + off)}) {
                if (value < knob.low || value > knob.high) continue;
                const std::int32_t expected = reference_token(of, plain.whole(), knob, value);
                INFO("case " << number << ", off " << off << ", at " << value << ": " << describe(of));
                REQUIRE(decide_once(plain.whole(), of.request, workspace).token == expected);
                LeanRow row(of.logits, of.shape, of.order_seed, random_parts(of, generator));
                REQUIRE(decide_lean(row, of.request, workspace).outcome.decision.token == expected);
            }
        }
    }
    CHECK(edges > cases_to_try() / 5);
}

}  // namespace croupier::sampler::test
