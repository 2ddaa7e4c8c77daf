// The one table of the sampling parameters. From it come the range checks and what they say
// (proto/param_ranges.cpp), the copies from and to the C ABI (client/abi_fields.cpp), the keys of a request
// to `croupier decide` (explain/params.cpp), docs/parameters.md, and what the fuzzer tries. What a
// request has beside them (its order of steps, lists of ids, biases) is in no table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "proto/sampling.h"

namespace croupier::proto {

// Of numbers: an end belongs to it or not, and may be infinite.
struct Interval {
    double low;
    double high;
    bool has_low = true;
    bool has_high = true;

    // Written so that NaN, which compares false, is in none.
    constexpr bool has(double value) const {
        return (has_low ? value >= low : value > low) && (has_high ? value <= high : value < high);
    }
};

template <typename T>
struct SamplingField {
    const char* name;  // in SamplingParams, in croupier_params and in what a fault says
    T SamplingParams::*member;
    const char* key;  // in a request to `croupier decide`; null: none of its own
    Interval allowed;
    const char* range;  // `allowed` in words
    Interval off;       // what switches its control off
    const char* meaning;

    constexpr double number(const SamplingParams& params) const {
        return static_cast<double>(params.*member);
    }
    constexpr bool is_on(const SamplingParams& params) const { return !off.has(number(params)); }
};

namespace fields {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr Interval from_to(double low, double high) {
    return {low, high};
}
constexpr Interval above_to(double low, double high) {
    return {low, high, false};
}
constexpr Interval at_least(double low) {
    return {low, kInfinity};
}
constexpr Interval at_most(double high) {
    return {-kInfinity, high};
}
constexpr Interval above(double low) {
    return {low, kInfinity, false};
}
constexpr Interval below(double high) {
    return {-kInfinity, high, true, false};
}
constexpr Interval only(double value) {
    return {value, value};
}
constexpr Interval never() {
    return {kInfinity, -kInfinity};
}
template <typename Choice>
constexpr Interval choice() {
    return {0.0, static_cast<double>(Choice::count_) - 1.0};
}

// FIELD(name, key, allowed, range, off, meaning), in the order of SamplingParams.
#define CROUPIER_SAMPLING_FIELDS(FIELD)                                                                      \
    FIELD(seed, "seed", at_least(0), "0 to 2^64 - 1", never(), "the key of the request's random numbers")    \
    FIELD(temperature, "temperature", from_to(0, 100), "0 to 100", never(),                                  \
          "divides the logits; below 1e-5: greedy; from there to 0.01: counts as 0.01")                      \
    FIELD(top_p, "top_p", above_to(0, 1), "above 0, up to 1", at_least(1),                                   \
          "keeps the most likely tokens until their probabilities reach this sum")                           \
    FIELD(min_p, "min_p", from_to(0, 1), "0 to 1", at_most(0),                                               \
          "drops tokens whose probability is below this share of the largest")                               \
    FIELD(repetition_penalty, "repetition_penalty", from_to(0.01, 100), "0.01 to 100", only(1),              \
          "for tokens in prompt and output: divides positive logits, multiplies negative ones")              \
    FIELD(frequency_penalty, "frequency_penalty", from_to(-2, 2), "-2 to 2", only(0),                        \
          "is subtracted from a token's logit once for each time it occurs in the output")                   \
    FIELD(presence_penalty, "presence_penalty", from_to(-2, 2), "-2 to 2", only(0),                          \
          "is subtracted from the logit of a token that occurs in the output")                               \
    FIELD(dynatemp_range, "dynatemp_range", from_to(0, 100), "0 to 100", at_most(0),                         \
          "how far the entropy may move the temperature, down and up")                                       \
    FIELD(dynatemp_exponent, "dynatemp_exponent", from_to(0, 100), "0 to 100", never(),                      \
          "the power of the relative entropy by which the temperature moves")                                \
    FIELD(top_n_sigma, "top_n_sigma", from_to(-1, 100), "-1 to 100 (0 or less is off)", at_most(0),          \
          "drops logits more than this many standard deviations below the maximum")                          \
    FIELD(typical_p, "typical_p", above_to(0, 1), "above 0, up to 1", at_least(1),                           \
          "keeps the tokens with surprise nearest to the entropy, until their probabilities reach this sum") \
    FIELD(xtc_probability, "xtc_probability", from_to(0, 1), "0 to 1", at_most(0),                           \
          "how often XTC drops the most likely tokens")                                                      \
    FIELD(xtc_threshold, "xtc_threshold", from_to(0, 1), "0 to 1", above(0.5),                               \
          "XTC drops all tokens with at least this probability except the least likely of them")             \
    FIELD(dry_multiplier, "dry_multiplier", from_to(0, 100), "0 to 100", at_most(0),                         \
          "the penalty of a token that would extend the shortest repeat that DRY counts")                    \
    FIELD(dry_base, "dry_base", from_to(1, 100), "1 to 100", never(),                                        \
          "the factor by which the penalty grows with each token of the repeat")                             \
    FIELD(mirostat_tau, "mirostat_tau", from_to(0, 100), "0 to 100", never(),                                \
          "mirostat's target surprise, in bits")                                                             \
    FIELD(mirostat_eta, "mirostat_eta", from_to(0, 1), "0 to 1", never(), "mirostat's learning rate")        \
    FIELD(adaptive_target, "adaptive_target", from_to(-1, 1), "0 to 1, or -1 for off", below(0),             \
          "adaptive-p's target probability")                                                                 \
    FIELD(adaptive_decay, "adaptive_decay", from_to(0, 0.99), "0 to 0.99", never(),                          \
          "the factor by which the weight of earlier draws shrinks with each draw of adaptive-p")            \
    FIELD(top_k, "top_k", at_least(-1), "at least 1, or 0 or -1 for off", at_most(0),                        \
          "keeps this many of the most likely tokens")                                                       \
    FIELD(eos_token_id, "eos_token_id", at_least(-1), "a token id, or -1 for none", below(0),                \
          "the token that ends the sequence")                                                                \
    FIELD(min_tokens, "min_tokens", at_least(0), "at most max_tokens", at_most(0),                           \
          "bans EOS and stop ids until the output has this many tokens")                                     \
    FIELD(max_tokens, "max_tokens", at_least(0), "0 to 2^32 - 1", at_most(0),                                \
          "ends the sequence when the output has this many tokens")                                          \
    FIELD(                                                                                                   \
        flags, nullptr, from_to(0, kAllFlags),                                                               \
        "the sum of 1 (ignore EOS), 2 (no log-prob), 4 (EOS and stop ids only ban) and 8 (rank with ties)",  \
        at_most(0), "options of the decision")                                                               \
    FIELD(child, "child", from_to(0, kMostChildren - 1), "0 to 1023", never(),                               \
          "the number of the sequence among those that share its seed")                                      \
    FIELD(penalty_last_n, "penalty_last_n", at_least(-1), "at least 0, or -1 for all", only(0),              \
          "how many of the last tokens the three penalties look at")                                         \
    FIELD(dry_penalty_last_n, "dry_penalty_last_n", at_least(-1), "at least 0, or -1 for all", only(0),      \
          "how many of the last tokens DRY searches for repeats")                                            \
    FIELD(dry_allowed_length, "dry_allowed_length", at_least(1), "at least 1", never(),                      \
          "the shortest repeat that DRY counts")                                                             \
    FIELD(logprobs, nullptr, from_to(0, kMaxLogprobs), "0 to 1024", at_most(0),                              \
          "returns the log-probs of this many of the most likely tokens")                                    \
    FIELD(mirostat, "mirostat", from_to(0, 2), "0, 1 or 2", at_most(0),                                      \
          "draws with this version of mirostat")                                                             \
    FIELD(rng, "rng", choice<Rng>(), "race, shvs, sglang or vllm (0 to 3)", never(), "how a token is drawn") \
    FIELD(logprob_mode, "logprobs_mode", choice<LogprobMode>(), "raw or processed (0 or 1)", never(),        \
          "log-probs of the row, or of the distribution that the token was drawn from")                      \
    FIELD(support, nullptr, from_to(0, kMaxSupport), "0 to 65536", at_most(0),                               \
          "answers this many of the tokens left to draw from with their probabilities, most likely first")

// fields::temperature, and so on.
#define CROUPIER_FIELD(name, key, allowed, range, off, meaning)                 \
    inline constexpr auto name = SamplingField<decltype(SamplingParams::name)>{ \
        #name, &SamplingParams::name, key, allowed, range, off, meaning};
CROUPIER_SAMPLING_FIELDS(CROUPIER_FIELD)
#undef CROUPIER_FIELD

}  // namespace fields

// The fields differ in their types: `visit` takes const auto&.
template <typename Visit>
constexpr void for_each_sampling_field(const Visit& visit) {
#define CROUPIER_VISIT(name, ...) visit(fields::name);
    CROUPIER_SAMPLING_FIELDS(CROUPIER_VISIT)
#undef CROUPIER_VISIT
}

// Of SamplingParams, or of another struct that has the same names.
template <typename Params>
constexpr std::size_t bytes_of_sampling_fields() {
    std::size_t bytes = 0;
#define CROUPIER_ADD(name, ...) bytes += sizeof(Params::name);
    CROUPIER_SAMPLING_FIELDS(CROUPIER_ADD)
#undef CROUPIER_ADD
    return bytes;
}
static_assert(bytes_of_sampling_fields<SamplingParams>() + sizeof(SamplingParams::reserved) +
                      sizeof(SamplingParams::reserved_too) + sizeof(SamplingParams::order) ==
                  sizeof(SamplingParams),
              "the table lacks a field of SamplingParams");

}  // namespace croupier::proto
