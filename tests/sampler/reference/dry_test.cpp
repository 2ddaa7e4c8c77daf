#include <catch2/catch.hpp>
#include <cmath>

#include "probe.h"
#include "sampler/formulas.h"

namespace croupier::sampler::test {
namespace {

struct DryProbe : Probe {
    Ids history;
    Ids breakers;

    DryProbe(std::size_t vocab, Ids tokens, Ids lists, double multiplier, std::int32_t allowed)
        : Probe(std::vector<float>(vocab, 0.0F)), history(std::move(tokens)), breakers(std::move(lists)) {
        params.dry_multiplier = multiplier;
        params.dry_base = 1.1;
        params.dry_allowed_length = allowed;
        request.prompt = history;
        request.dry_breakers = breakers;
    }

    // What DRY took from the token, beside one from which it took nothing.
    double penalty(std::int32_t token, std::int32_t free_token) const {
        const Probabilities each = support();
        return std::log(each.at(free_token) / each.at(token));
    }
};

}  // namespace

TEST_CASE("reference: llama.cpp's published DRY cases") {
    check_support(DryProbe(4, {0, 1}, {}, 1.0, 2), {{0, 0.25}, {1, 0.25}, {2, 0.25}, {3, 0.25}});
    check_support(DryProbe(4, {0, 1, 2, 0, 1}, {}, 1.0, 2),
                  {{0, 0.296923}, {1, 0.296923}, {2, 0.109232}, {3, 0.296923}});
    check_support(DryProbe(5, {0, 1, 3, 4, 0, 1}, {1, 3}, 1.0, 2),
                  {{0, 0.2}, {1, 0.2}, {2, 0.2}, {3, 0.2}, {4, 0.2}});
    check_support(DryProbe(5, {0, 1, 2, 0, 1}, {}, 2.0, 2),
                  {{0, 0.241818}, {1, 0.241818}, {2, 0.032727}, {3, 0.241818}, {4, 0.241818}});
    check_support(DryProbe(5, {0, 1, 2, 3, 4, 0, 1}, {}, 1.0, 4),
                  {{0, 0.2}, {1, 0.2}, {2, 0.2}, {3, 0.2}, {4, 0.2}});
}

TEST_CASE("reference: each token takes the penalty of the longest repeat that it would extend") {
    // a b c c b c y a b c: after "a b c" stands c, after "c" stands b, after "b c" stands y.
    const DryProbe probe(6, {0, 1, 2, 2, 1, 2, 3, 0, 1, 2}, {}, 1.0, 1);
    CHECK(probe.penalty(2, 5) == Approx(std::pow(1.1, 2)));
    CHECK(probe.penalty(1, 5) == Approx(1.0));
    CHECK(probe.penalty(3, 5) == Approx(1.1));
    CHECK(probe.penalty(0, 5) == Approx(0.0).margin(1e-9));
}

TEST_CASE("reference: a repeat reaches back to the newest breaker only") {
    const Ids history = {0, 1, 2, 3, 4, 0, 1, 2, 3};
    CHECK(DryProbe(6, history, {}, 1.0, 1).penalty(4, 5) == Approx(std::pow(1.1, 3)));
    CHECK(DryProbe(6, history, {1, 1}, 1.0, 1).penalty(4, 5) == Approx(1.1));
    CHECK(DryProbe(6, history, {2, 0, 1}, 1.0, 1).penalty(4, 5) == Approx(1.1));
    CHECK(DryProbe(6, history, {1, 1, 2, 1, 2}, 1.0, 1).penalty(4, 5) == Approx(1.0));
    CHECK(DryProbe(6, history, {1, 3}, 1.0, 1).penalty(4, 5) == Approx(0.0).margin(1e-9));
}

TEST_CASE("reference: a breaker that runs into the end must be complete to count") {
    const DryProbe probe(6, {0, 1, 2, 3, 0, 1, 2}, {2, 2, 3}, 1.0, 1);
    CHECK(probe.penalty(3, 5) == Approx(1.1 * 1.1));
}

TEST_CASE("reference: DRY's window is of prompt and output together") {
    DryProbe probe(6, {0, 1, 2}, {}, 1.0, 1);
    const Ids output = {4, 0, 1};
    probe.request.output = output;
    CHECK(probe.penalty(2, 5) == Approx(1.1));
    probe.params.dry_penalty_last_n = 5;
    CHECK(probe.penalty(2, 5) == Approx(1.0));
    probe.params.dry_penalty_last_n = 4;
    CHECK(probe.penalty(2, 5) == Approx(0.0).margin(1e-9));
    probe.params.dry_penalty_last_n = 0;
    CHECK(probe.penalty(2, 5) == Approx(0.0).margin(1e-9));
}

TEST_CASE("reference: overlapping repeats of one token are found") {
    const DryProbe probe(3, Ids(9, 0), {}, 1.0, 2);
    CHECK(probe.penalty(0, 1) == Approx(std::pow(1.1, 6)));
}

TEST_CASE("DRY's exponent is clamped so that its power stays finite") {
    proto::SamplingParams params;
    params.dry_multiplier = 1.0;
    params.dry_base = 2.0;
    params.dry_allowed_length = 2;
    CHECK(dry_penalty(params, 2) == 1.0);
    CHECK(dry_penalty(params, 12) == 1024.0);
    CHECK(dry_penalty(params, 129) == std::exp2(127));
    CHECK(dry_penalty(params, 130) == std::exp2(127));
    CHECK(dry_penalty(params, 5000000) == std::exp2(127));
    params.dry_base = 1.0;
    CHECK(dry_penalty(params, 5000000) == 1.0);
}

}  // namespace croupier::sampler::test
