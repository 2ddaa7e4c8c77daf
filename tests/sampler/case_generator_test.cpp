// The random cases, on which the proof of the fast paths rests, leave no parameter and no step out.
#include "case_generator.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "lm_cases.h"
#include "request/steps.h"

namespace croupier::sampler::test {
namespace {

constexpr std::uint32_t kVocab = 65;
constexpr int kCases = 2000;

std::set<std::string> steps_taken_by(const proto::SamplingParams& params) {
    std::set<std::string> taken;
    for (std::size_t i = 0; i < proto::kStepNames.size(); ++i) {
        if (request::takes_step(params, static_cast<proto::Step>(i + 1))) taken.insert(proto::kStepNames[i]);
    }
    return taken;
}

// Adds the names of the parameters that are not as they begin.
void note_set(const proto::SamplingParams& params, std::set<std::string>& names) {
    proto::for_each_sampling_field([&](const auto& field) {
        if (params.*field.member != proto::SamplingParams{}.*field.member) names.insert(field.name);
    });
}

const std::set<std::string> kAllSteps(proto::kStepNames.begin(), proto::kStepNames.end());

}  // namespace

TEST_CASE("random requests set every parameter, and take every step") {
    std::mt19937_64 generator(1);
    RandomCase random_case;
    std::set<std::string> set;
    std::set<std::string> taken;
    for (int number = 0; number < kCases; ++number) {
        fill_case(random_case, kVocab, generator);
        taken.merge(steps_taken_by(random_case.params));
        note_set(random_case.params, set);
    }
    CHECK(taken == kAllSteps);
    proto::for_each_sampling_field([&](const auto& field) {
        INFO(field.name);
        CHECK(set.count(field.name) == 1);
    });
}

TEST_CASE("requests as people send them take every step, and set every parameter that people set") {
    const std::set<std::string> left_alone = {
        "dynatemp_exponent",  "dry_base",           "mirostat_eta", "adaptive_decay",
        "dry_penalty_last_n", "dry_allowed_length", "max_tokens",   "loop_count",
        "loop_max_period",    "loop_min_period",    "support",
    };
    std::mt19937_64 generator(2);
    LmCase lm_case;
    fill_lm_row(lm_case, kVocab, proto::Dtype::bf16, generator);
    std::set<std::string> set;
    std::set<std::string> taken;
    for (int number = 0; number < kCases; ++number) {
        fill_lm_request(lm_case, generator);
        taken.merge(steps_taken_by(lm_case.params));
        note_set(lm_case.params, set);
    }
    CHECK(taken == kAllSteps);
    proto::for_each_sampling_field([&](const auto& field) {
        INFO(field.name);
        CHECK(set.count(field.name) + left_alone.count(field.name) == 1);
    });
}

}  // namespace croupier::sampler::test
