// Formulas of docs/semantics.md that must give the same bits wherever they are computed.
#pragma once

#include <cstdint>
#include <span>

#include "proto/decision.h"
#include "proto/sampling.h"
#include "sampler/mass.h"

namespace croupier::sampler {

// All tokens of one logit.
struct ValueClass {
    double value;
    std::uint32_t count;
};

// ln(total / 2^43): the logarithm of the softmax's denominator, relative to the heaviest token.
double log_total(Mass total);

// The population deviation; classes in canonical order.
double deviation_of(std::span<const ValueClass> classes);

// In nats.
double entropy_of(const EntropySums& sums);

// Of an entropy, taken at T = 1, of `tokens` tokens.
double dynamic_temperature(const proto::SamplingParams& params, double entropy, std::uint64_t tokens);

// |-ln p - H| of a token whose logarithm of the weight is `exponent`.
double typical_distance(double exponent, double log_total, double entropy);

// What DRY takes from a token that would extend a repeat of this length, at least the allowed one.
double dry_penalty(const proto::SamplingParams& params, std::uint32_t repeat);

// -log2 of a token's share; infinite without mass.
double surprise_of(Mass mass, Mass total);
// The share that surprises by so many bits; 0 or more.
double share_of_surprise(double bits);

// mu, before the decision and after it.
double mirostat_level(const proto::SamplingParams& params, const proto::Feedback& feedback);
proto::Feedback mirostat_feedback(const proto::SamplingParams& params, double level, double surprise);

// How many of the best mirostat v1 looks at.
constexpr std::uint32_t kMirostatEstimates = 100;

// Mirostat v1's k. `exponents`: those of the best tokens in canonical order, at most kMirostatEstimates;
// `tokens` are left. In 1..tokens.
std::uint64_t mirostat_count(std::span<const double> exponents, std::uint64_t tokens, std::uint32_t vocab,
                             double level);

// Adaptive-p: the probability it aims at, the logit that replaces a token's own, and what the draw of a
// token of this probability leaves.
double adaptive_aim(const proto::SamplingParams& params, const proto::Feedback& feedback);
double adaptive_logit(double probability, double aim);
constexpr double kAdaptiveWidth = 0.3;
constexpr double kAdaptivePeak = 5.0;
constexpr double kAdaptiveSharpness = 10.0;

// The same for tokens that weigh so much together.
struct AdaptiveLogit {
    Weigher weigher;
    double total;
    double aim;

    double probability(double value) const { return static_cast<double>(weigher.mass(value)) / total; }
    double operator()(double value) const { return adaptive_logit(probability(value), aim); }
};

proto::Feedback adaptive_feedback(const proto::SamplingParams& params, const proto::Feedback& feedback,
                                  double probability);

}  // namespace croupier::sampler
