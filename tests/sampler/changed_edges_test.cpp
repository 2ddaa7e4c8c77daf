// Edges that a changed token's weight decides: how exactly it is known does not depend on the temperature, on
// how high logits stand, or on whether the token was read.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "edge_cases.h"
#include "lean_fixture.h"
#include "lm_cases.h"
#include "sampler/row_mass.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

constexpr std::array kOff = {-3e-4, -3e-5, -1e-5, -2e-6, -5e-7, 5e-7, 2e-6, 1e-5, 3e-5, 3e-4};

struct Agreement {
    int cases = 0;
    int rows_differ = 0;
    int lean_differ = 0;
};

void compare(const LmCase& of, const SentParts& parts, Workspace& workspace, Agreement& found) {
    LeanRow row(of.logits, of.shape, 1, parts);
    const std::int32_t expected = reference::decide(row.whole(), of.request).decision.token;
    ++found.cases;
    if (decide_once(row.whole(), of.request, workspace).token != expected) ++found.rows_differ;
    if (decide_lean(row, of.request, workspace).outcome.decision.token != expected) ++found.lean_differ;
}

// Two tokens of one logit weigh all there is, and a penalty below 0 raises the first of them: the second has
// what is left. `aim` is given the first one's share.
constexpr std::uint32_t kRaised = 3;
constexpr std::uint32_t kOther = 700;
void compare_raised(LmCase& of, double temperature, std::uint64_t seed, double share_of_raise,
                    const std::function<void(LmCase&, double)>& aim, Workspace& workspace, Agreement& found) {
    race_all(of, temperature, seed);
    of.params.presence_penalty = -temperature * share_of_raise;
    const double other = std::exp(of.params.presence_penalty / temperature);
    for (const double off : kOff) {
        aim(of, (1.0 + off) / (1.0 + other));
        bind_request(of);
        of.request.max_length = 100;
        compare(of, send_sums(of, 8), workspace, found);
    }
}

void fill_two(LmCase& of, float level, proto::Dtype dtype) {
    constexpr std::uint32_t kVocab = 2000;
    of.shape.dtype = dtype;
    of.shape.tile = kBlock;
    of.logits.assign(kVocab, -1.0F);
    of.logits[kRaised] = level;
    of.logits[kOther] = level;
    of.prompt.clear();
    of.output.assign(1, static_cast<std::int32_t>(kRaised));
}

// Blocks with one heavy token each, all of them in the history and none of them there; some tokens above
// them are, of which one wins.
constexpr std::uint32_t kUnreadFrom = 50;
constexpr std::uint32_t kUnreadVocab = 64 * 400;
void fill_unread(LmCase& of, float heavy, float step, std::uint32_t blocks, int times) {
    of.shape.dtype = proto::Dtype::fp32;
    of.logits.assign(kUnreadVocab, -30.0F);
    of.prompt.clear();
    of.output.clear();
    for (std::uint32_t block = kUnreadFrom; block < kUnreadFrom + blocks; ++block) {
        const std::uint32_t id = block * kBlock + 7;
        of.logits[id] = heavy;
        of.output.insert(of.output.end(), static_cast<std::size_t>(times), static_cast<std::int32_t>(id));
    }
    for (std::uint32_t block = 0; block < 20; ++block)
        of.logits[block * kBlock + 9] = heavy + step * (1.0F + 0.01F * static_cast<float>(block));
}

// The share of all that stands before a token, where each of the heavy ones is `lowered`.
double share_before(const LmCase& of, std::uint32_t token, float heavy, double lowered) {
    const auto value_of = [&](std::uint32_t id) {
        const auto logit = static_cast<double>(of.logits[id]);
        return of.logits[id] == heavy && id >= kUnreadFrom * kBlock ? logit - lowered : logit;
    };
    double before = 0.0;
    double all = 0.0;
    for (std::uint32_t id = 0; id < kUnreadVocab; ++id) {
        const double value = value_of(id);
        const double weight = std::exp((value - static_cast<double>(heavy)) / of.params.temperature);
        all += weight;
        if (value > value_of(token) || (value == value_of(token) && id < token)) before += weight;
    }
    return before / all;
}

// With sums that are off by all but what a writer may be, either way.
void compare_unread(LmCase& of, std::uint64_t seed, float heavy, double lowered, Workspace& workspace,
                    Agreement& found) {
    SentParts parts = send_sums(of, 20);
    parts.error = (seed % 2 == 0 ? 0.995 : -0.995) * kSentWeightError;
    const LeanRow row(of.logits, of.shape, 1, parts);
    const std::int32_t raced = reference::decide(row.whole(), of.request).decision.token;
    const double share = share_before(of, static_cast<std::uint32_t>(raced), heavy, lowered);
    if (share < 0.02) return;
    for (const double off : kOff) {
        of.params.top_p = std::min(0.999999, share * (1.0 + off));
        compare(of, parts, workspace, found);
    }
}

void check_none_differs(const Agreement& found, int least) {
    CHECK(found.cases >= least);
    CHECK(found.rows_differ == 0);
    CHECK(found.lean_differ == 0);
}

// An engine left one token, wrote a filler over all others, and min_tokens bans the one.
void fill_banned(LmCase& of, float filler, float step, double temperature, std::mt19937_64& generator) {
    constexpr std::uint32_t kOnly = 777;
    of.shape.dtype = proto::Dtype::fp32;
    of.shape.tile = kBlock;
    of.logits.assign(1300, filler);
    for (float& logit : of.logits) logit -= step * static_cast<float>(generator() % 6);
    of.logits[kOnly] = 5.0F;
    of.logits[1234] = filler + 2.0F * step;
    of.prompt.clear();
    of.output.clear();
    race_all(of, temperature, generator());
    of.params.min_tokens = 10;
    of.params.eos_token_id = kOnly;
}

}  // namespace

TEST_CASE("a penalised token's weight is known at low temperatures too") {
    std::mt19937_64 generator(20261201);
    Workspace workspace(2000);
    LmCase of;
    const auto top_p = [](LmCase& to, double share) { to.params.top_p = share; };
    const auto xtc = [](LmCase& to, double share) {
        to.params.xtc_probability = 1.0;
        to.params.xtc_threshold = 1.0 - share;
    };
    const auto typical = [](LmCase& to, double share) { to.params.typical_p = share; };
    for (const auto& aim : {std::function<void(LmCase&, double)>(top_p), {xtc}, {typical}}) {
        Agreement found;
        for (const double temperature : {0.01, 0.03, 0.1, 0.7}) {
            for (const float level : {5.0F, 40.0F, 100.0F, 500.0F}) {
                for (int number = 0; number < 40; ++number) {
                    fill_two(of, level, static_cast<proto::Dtype>(number % 3));
                    const double raise = 0.3 + 1e-3 * static_cast<double>(generator() % 700);
                    compare_raised(of, temperature, generator(), raise, aim, workspace, found);
                }
            }
        }
        check_none_differs(found, 6000);
    }
}

TEST_CASE("beside a heavy history that was not read, a winner at the edge is the whole row's") {
    std::mt19937_64 generator(20261202);
    Workspace workspace(kUnreadVocab);
    LmCase of;
    Agreement found;
    for (int number = 0; number < 400; ++number) {
        // Where a weight's polynomial is farthest off, among others.
        const float heavy = 3.0F + 0.001F * static_cast<float>(generator() % 700);
        fill_unread(of, heavy, 1.0F, 60 + static_cast<std::uint32_t>(generator() % 240), 10);
        race_all(of, std::array{0.7, 0.9, 1.0}[generator() % 3], generator());
        of.request.max_length = 100000;
        of.params.frequency_penalty = 2.0;
        compare_unread(of, generator(), heavy, 20.0, workspace, found);
    }
    check_none_differs(found, 1000);
}

TEST_CASE("what a history that was not read can lose is bounded at low temperatures too") {
    std::mt19937_64 generator(20261203);
    Workspace workspace(kUnreadVocab);
    LmCase of;
    Agreement found;
    for (int number = 0; number < 300; ++number) {
        const float heavy = std::array{10.0F, 40.0F, 100.0F}[generator() % 3];
        fill_unread(of, heavy, 0.01F, 60 + static_cast<std::uint32_t>(generator() % 240), 1);
        race_all(of, 0.01, generator());
        of.request.max_length = 100000;
        of.params.presence_penalty = 1e-5 * static_cast<double>(1 + generator() % 500);
        compare_unread(of, generator(), heavy, of.params.presence_penalty, workspace, found);
    }
    check_none_differs(found, 1000);
}

TEST_CASE("what a ban leaves may lie where no float can weigh it") {
    struct Filler {
        float logit;
        float step;
        double temperature;
    };
    constexpr std::array kFillers = {Filler{-60000.0F, 0.0078125F, 0.01}, Filler{-1e7F, 1.0F, 1.0},
                                     Filler{-3e7F, 2.0F, 2.0}, Filler{-1e8F, 8.0F, 10.0},
                                     Filler{std::numeric_limits<float>::lowest(), 0.0F, 1.0}};
    std::mt19937_64 generator(20261209);
    Workspace workspace(1300);
    LmCase of;
    Agreement found;
    for (const Filler& filler : kFillers) {
        for (int number = 0; number < 20; ++number) {
            fill_banned(of, filler.logit, filler.step, filler.temperature, generator);
            for (double top_p = 0.02; top_p < 1.0; top_p += 0.01) {
                of.params.top_p = top_p;
                SentParts parts = send_sums(of, 0);
                parts.all = true;
                compare(of, parts, workspace, found);
            }
        }
    }
    check_none_differs(found, 9000);
}

}  // namespace croupier::sampler::test
