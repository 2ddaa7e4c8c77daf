// fp32 rows by classes of several values: what filters keep is the reference's, wherever a boundary falls.
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "row_fixture.h"
#include "sampler/canonical_order.h"
#include "sampler/code_range.h"
#include "sampler/decide.h"
#include "sampler/reference/decide.h"
#include "testing/agreement.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

using proto::SamplingParams;
using proto::Step;

constexpr std::uint32_t kVocab = 6000;
constexpr float kNothing = -std::numeric_limits<float>::infinity();

enum class Values { spread, wide, one_code, ties, equal, zeros, denormals, holes, count_ };

float logit_of(Values values, std::uint32_t token, std::mt19937_64& generator) {
    std::normal_distribution<float> bell(0.0F, 3.0F);
    const float value = bell(generator);
    switch (values) {
        case Values::wide:
            return std::ldexp(value, static_cast<int>(generator() % 40) - 36);
        case Values::one_code:  // neighbours that share their upper 16 bits
            return std::bit_cast<float>(0x40A00000U + static_cast<std::uint32_t>(generator() & 0xFFFFU));
        case Values::ties:
            return std::round(value * 2.0F) / 2.0F + 0.123F;
        case Values::equal:
            return -1.7F;
        case Values::zeros:
            return generator() % 3 == 0 ? value : (generator() % 2 == 0 ? 0.0F : -0.0F);
        case Values::denormals:
            return value * 1e-39F;
        case Values::holes:
            if (token % 3 == 0) return kNothing;
            return value;
        case Values::spread:
        case Values::count_:
            break;
    }
    return value;
}

struct Kind {
    std::string name;
    std::function<void(SamplingParams&)> change;
};

std::vector<Kind> kinds() {
    return {
        {"top-k", [](auto& it) { it.top_k = 3000; }},
        {"top-k and top-p", [](auto& it) { it.top_k = 2000, it.top_p = 0.9; }},
        {"top-p and typical", [](auto& it) { it.top_p = 0.97, it.typical_p = 0.6; }},
        {"typical and top-p",
         [](auto& it) {
             it.typical_p = 0.8, it.top_p = 0.9;
             it.order = {Step::typical_p, Step::top_p};
         }},
        {"typical and XTC",
         [](auto& it) { it.typical_p = 0.9, it.xtc_probability = 1.0, it.xtc_threshold = 0.0002; }},
        {"sigma and min-p", [](auto& it) { it.top_n_sigma = 1.5, it.min_p = 0.001; }},
        {"sigma and typical", [](auto& it) { it.top_n_sigma = 2.0, it.typical_p = 0.9; }},
        {"mirostat 1", [](auto& it) { it.mirostat = 1, it.mirostat_tau = 9.0, it.top_p = 0.99; }},
        {"mirostat 2", [](auto& it) { it.mirostat = 2, it.mirostat_tau = 6.0, it.top_k = 5000; }},
        {"adaptive-p", [](auto& it) { it.adaptive_target = 0.3; }},
        {"adaptive-p and min-p", [](auto& it) { it.adaptive_target = 0.01, it.min_p = 0.0001; }},
        {"dynamic temperature and typical", [](auto& it) { it.dynatemp_range = 0.4, it.typical_p = 0.9; }},
        {"dynamic temperature and min-p", [](auto& it) { it.dynatemp_range = 0.5, it.min_p = 0.0003; }},
        {"dynamic temperature, top-p and XTC",
         [](auto& it) {
             it.dynatemp_range = 0.3, it.top_p = 0.98, it.xtc_probability = 1.0, it.xtc_threshold = 0.0003;
         }},
        {"top-p before penalties",
         [](auto& it) {
             it.top_p = 0.95;
             it.order = {Step::top_p, Step::penalties};
         }},
        {"penalties between filters",
         [](auto& it) {
             it.top_k = 4000, it.typical_p = 0.9;
             it.order = {Step::top_k, Step::penalties, Step::temperature, Step::typical_p};
         }},
        {"nothing", [](auto&) {}},
    };
}

struct Case {
    SamplingParams params;
    std::vector<std::int32_t> prompt;
    std::vector<std::int32_t> output;
    std::vector<std::uint32_t> mask;
    std::vector<proto::TokenBias> bias;
};

// Each with another company: penalties that lower or raise, a mask, biases, shares, processed log-probs.
Case case_of(const Kind& kind, std::uint32_t company, std::mt19937_64& generator) {
    Case of;
    of.params.temperature = 0.9;
    of.params.seed = generator();
    kind.change(of.params);
    for (int i = 0; i < 300; ++i) of.prompt.push_back(static_cast<std::int32_t>(generator() % kVocab));
    for (int i = 0; i < 50; ++i) of.output.push_back(static_cast<std::int32_t>(generator() % kVocab));
    of.params.repetition_penalty = company % 2 == 0 ? 1.0 : company % 4 == 1 ? 1.3 : 0.8;
    if (company % 3 == 1) of.params.support = company % 2 == 0 ? 40 : 65536;
    if (company % 3 == 2) of.params.logprob_mode = proto::LogprobMode::processed;
    if (company % 3 == 2) of.params.logprobs = 5;
    if (company % 5 == 4) {
        of.mask.resize((kVocab + 31) / 32);
        for (std::uint32_t& word : of.mask) word = static_cast<std::uint32_t>(generator());
    }
    if (company % 5 == 3) of.bias = {{5, 3.25F}, {900, -2.0F}, {901, 0.5F}};
    return of;
}

Request request_of(const Case& of) {
    Request request;
    request.params = &of.params;
    request.prompt = of.prompt;
    request.output = of.output;
    request.mask = of.mask;
    request.bias = of.bias;
    request.max_length = 1000;
    return request;
}

std::vector<float> row_of(Values values, std::mt19937_64& generator) {
    std::vector<float> logits;
    for (std::uint32_t token = 0; token < kVocab; ++token)
        logits.push_back(logit_of(values, token, generator));
    return logits;
}

}  // namespace

TEST_CASE("filters over the classes of an fp32 row keep what the reference keeps") {
    const auto values = static_cast<Values>(GENERATE(range(0, static_cast<int>(Values::count_))));
    std::mt19937_64 generator(20261127 + static_cast<std::uint64_t>(values));
    Workspace workspace(kVocab);
    std::uint32_t by_classes = 0;
    for (std::uint32_t company = 0; company < 30; ++company) {
        const RowFixture row(row_of(values, generator),
                             {proto::Dtype::fp32, 64, 2, 1, {1000, 5000}, company % 2 == 0, false}, company);
        for (const Kind& kind : kinds()) {
            const Case of = case_of(kind, company, generator);
            const Request request = request_of(of);
            const proto::Decision decision = decide_once(row.view(), request, workspace);
            INFO(kind.name << ", values " << static_cast<int>(values) << ", company " << company << ", path "
                           << name_of(workspace.answer().path));
            const std::string found =
                difference(outcome_of(decision, workspace.answer()), reference::decide(row.view(), request),
                           Logprobs::within_error);
            REQUIRE(found.empty());
            by_classes += workspace.answer().path == DecisionPath::classes ? 1U : 0U;
        }
    }
    CHECK(by_classes > 100);
}

TEST_CASE("every value belongs to the class of one upper code, and classes do not overlap") {
    std::mt19937_64 generator(6);
    double above = std::numeric_limits<double>::infinity();
    for (std::uint32_t rank = 0; rank < 0xFF00U; ++rank) {
        const std::uint32_t code = rank < 0x7F80U ? 0x7F7FU - rank : rank - 0x7F80U + 0x8001U;
        if (code > 0xFF7FU) break;
        const double most = most_of_upper_code(code);
        const double least = least_of_upper_code(code);
        REQUIRE(least < most);
        REQUIRE(most < above);
        REQUIRE(upper_code_of(most) == code);
        REQUIRE(upper_code_of(least) == code);
        const double between = least + (most - least) * 0.37;
        REQUIRE(upper_code_of(between) == code);
        above = least;
    }
    CHECK(upper_code_of(-0.0) == 0);
    CHECK(upper_code_of(1e300) == 0x7F7FU);
    CHECK(upper_code_of(-1e300) == 0xFF7FU);
}

TEST_CASE("many candidates of whatever values are sorted canonically") {
    constexpr std::uint32_t kCount = 5000;
    Workspace workspace(kCount);
    std::mt19937_64 generator(7);
    const auto value_of = [&](int kind, double share) {
        switch (kind) {
            case 0:
                return share * 20.0 - 10.0;
            case 1:  // any exponent a double has, of either sign
                return std::ldexp(share - 0.5, static_cast<int>(generator() % 2000) - 1000);
            case 2:  // one upper code, unevenly
                return 5.0 + 0.01 * std::pow(share, 40.0);
            case 3:
                return generator() % 2 == 0 ? 0.0 : -0.0;
            default:  // beyond floats
                return (share - 0.5) * 1e300;
        }
    };
    for (int kind = 0; kind < 5; ++kind) {
        std::vector<Candidate> expected;
        for (std::uint32_t i = 0; i < kCount; ++i)
            expected.push_back({value_of(kind, std::ldexp(static_cast<double>(generator() >> 11U), -53)), i});
        if (kind % 2 == 1) std::shuffle(expected.begin(), expected.end(), generator);
        std::copy(expected.begin(), expected.end(), workspace.candidates.begin());
        sort_canonically(workspace, kCount);
        std::sort(expected.begin(), expected.end(), canonically_before);
        const bool same = std::equal(
            expected.begin(), expected.end(), workspace.candidates.begin(),
            [](const Candidate& a, const Candidate& b) { return a.value == b.value && a.token == b.token; });
        INFO("kind " << kind);
        CHECK(same);
    }
}

}  // namespace croupier::sampler::test
