#include "sampler/formulas.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sampler/log.h"
#include "sampler/params.h"

namespace croupier::sampler {
namespace {

using proto::Feedback;
using proto::SamplingParams;

constexpr double kLn2 = 0x1.62e42fefa39efp-1;

double exp_of(double x) {
    return x <= 0.0 ? exp_nonpositive(x) : 1.0 / exp_nonpositive(-x);
}

// base > 0
double power(double base, double exponent) {
    return exp_of(exponent * log_positive(base));
}

double whole_power(double base, std::uint32_t exponent) {
    double result = 1.0;
    for (; exponent > 0; exponent >>= 1U) {
        if ((exponent & 1U) != 0) result *= base;
        base *= base;
    }
    return result;
}

// What llama.cpp calls the logarithm of the largest float: beyond it its own penalty would be infinite.
constexpr double kDryLargestLog = 88.7228391;
constexpr double kDrySmallestBase = 1.000001;

std::uint32_t clamped_dry_exponent(double base, std::uint32_t exponent) {
    if (base <= kDrySmallestBase) return exponent;
    return std::min(exponent, static_cast<std::uint32_t>(kDryLargestLog / log_positive(base)));
}

// The sums that stand for everything that was drawn before the first decision: as if all had been on target.
Feedback adaptive_start(const SamplingParams& params, const Feedback& feedback) {
    if (feedback.weight != 0.0) return feedback;
    const double past = 1.0 - params.adaptive_decay;
    return {params.adaptive_target / past, 1.0 / past};
}

// A token may weigh nothing: by rounding, or because the row's writer told false maxima. Its sequence goes
// on.
Feedback finite_or(const Feedback& after, const Feedback& before) {
    return std::isfinite(after.level) ? after : before;
}

}  // namespace

double log_total(Mass total) {
    return log_positive(static_cast<double>(total) / kMassUnit);
}

double deviation_of(std::span<const ValueClass> classes) {
    double tokens = 0.0;
    double sum = 0.0;
    for (const ValueClass& each : classes) {
        const auto count = static_cast<double>(each.count);
        tokens += count;
        sum += count * each.value;
    }
    const double mean = sum / tokens;
    double squares = 0.0;
    for (const ValueClass& each : classes) {
        const double distance = each.value - mean;
        squares += static_cast<double>(each.count) * (distance * distance);
    }
    return std::sqrt(squares / tokens);
}

double entropy_of(const EntropySums& sums) {
    return log_total(sums.total) + static_cast<double>(sums.products) / static_cast<double>(sums.total);
}

double dynamic_temperature(const SamplingParams& params, double entropy, std::uint64_t tokens) {
    const double low = std::max(0.0, params.temperature - params.dynatemp_range);
    const double high = params.temperature + params.dynatemp_range;
    const double share = entropy / log_positive(static_cast<double>(tokens));
    // A row with all its mass on one token has no entropy, or less than none by rounding.
    const double nothing = params.dynatemp_exponent == 0.0 ? 1.0 : 0.0;
    const bool some = share >= std::numeric_limits<double>::min();
    const double raised = some ? power(share, params.dynatemp_exponent) : nothing;
    return std::max(low + (high - low) * raised, kLowestTemperature);
}

double typical_distance(double exponent, double log_total, double entropy) {
    return std::abs((log_total - exponent) - entropy);
}

double dry_penalty(const SamplingParams& params, std::uint32_t repeat) {
    const std::uint32_t beyond = repeat - static_cast<std::uint32_t>(params.dry_allowed_length);
    return params.dry_multiplier *
           whole_power(params.dry_base, clamped_dry_exponent(params.dry_base, beyond));
}

double surprise_of(Mass mass, Mass total) {
    if (mass == 0) return std::numeric_limits<double>::infinity();
    return -log_positive(static_cast<double>(mass) / static_cast<double>(total)) / kLn2;
}

double share_of_surprise(double bits) {
    return exp_nonpositive(-bits * kLn2);
}

double mirostat_level(const SamplingParams& params, const Feedback& feedback) {
    return feedback.weight == 0.0 ? 2.0 * params.mirostat_tau : feedback.level;
}

Feedback mirostat_feedback(const SamplingParams& params, double level, double surprise) {
    return finite_or({level - params.mirostat_eta * (surprise - params.mirostat_tau), 1.0}, {level, 1.0});
}

std::uint64_t mirostat_count(std::span<const double> exponents, std::uint64_t tokens, std::uint32_t vocab,
                             double level) {
    if (exponents.size() < 2) return tokens;
    double products = 0.0;
    double squares = 0.0;
    for (std::size_t i = 0; i + 1 < exponents.size(); ++i) {
        const double step = log_positive(static_cast<double>(i + 2) / static_cast<double>(i + 1));
        products += step * (exponents[i] - exponents[i + 1]);
        squares += step * step;
    }
    const double zipf = products / squares;
    const double excess = zipf - 1.0;
    const double log_vocab = log_positive(static_cast<double>(vocab));
    // Its limit where the exponent of Zipf's law is 1: excess / (1 - V^-excess) -> 1 / ln V.
    const double shape = excess == 0.0 ? 1.0 / log_vocab : excess / (1.0 - exp_of(-excess * log_vocab));
    const double count = exp_of((log_positive(shape) + level * kLn2) / zipf);
    if (count >= static_cast<double>(tokens)) return tokens;
    return count >= 1.0 ? static_cast<std::uint64_t>(count) : 1;
}

double adaptive_aim(const SamplingParams& params, const Feedback& feedback) {
    const Feedback before = adaptive_start(params, feedback);
    return std::clamp(2.0 * params.adaptive_target - before.level / before.weight, 0.0, 1.0);
}

double adaptive_logit(double probability, double aim) {
    const double distance = std::abs(probability - aim) / kAdaptiveWidth;
    return kAdaptivePeak - kAdaptiveSharpness * (distance * distance) / (1.0 + distance);
}

Feedback adaptive_feedback(const SamplingParams& params, const Feedback& feedback, double probability) {
    const Feedback before = adaptive_start(params, feedback);
    const Feedback after = {probability + params.adaptive_decay * before.level,
                            1.0 + params.adaptive_decay * before.weight};
    return finite_or(after, before);
}

}  // namespace croupier::sampler
