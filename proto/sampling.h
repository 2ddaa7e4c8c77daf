// What a request asks of a decision: the parameters, their one table, and the steps. From the table come the
// range checks and what they say (proto/param_ranges.cpp), the copies from and to the C ABI
// (client/abi_fields.cpp), the keys of a request to `croupier decide` (explain/params.cpp), croupier.Params
// (python/extension/params.cpp), docs/parameters.md, and what the fuzzer tries. What a request has beside
// them (its order of steps, lists of ids, biases) is in no table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace croupier::proto {

constexpr std::uint32_t kIgnoreEos = 1U << 0U;
// The decision's log-prob is NaN: it costs a pass over the row that a request without log-probs need not pay.
constexpr std::uint32_t kNoLogprob = 1U << 1U;
// EOS and stop ids are banned until min_tokens are out, and end nothing: the engine ends its sequences.
constexpr std::uint32_t kStopsOnlyBan = 1U << 2U;
// The drawn token's rank is the number of tokens at or above it, itself among them, as vLLM counts.
constexpr std::uint32_t kRankCountsTies = 1U << 3U;
// The text ends after the stop string that ends it, not before.
constexpr std::uint32_t kIncludeStop = 1U << 4U;
// Special tokens are a part of the text.
constexpr std::uint32_t kKeepSpecial = 1U << 5U;
// The first JSON value that the text has ends the sequence.
constexpr std::uint32_t kStopAtJson = 1U << 6U;
constexpr std::uint32_t kAllFlags =
    kIgnoreEos | kNoLogprob | kStopsOnlyBan | kRankCountsTies | kIncludeStop | kKeepSpecial | kStopAtJson;

struct FlagName {
    std::uint32_t flag;
    const char* name;
};
// As `croupier decide` has them among its parameters; of kNoLogprob it has the lack of `logprobs`, and of
// texts nothing.
inline constexpr std::array kParameterFlagNames = {FlagName{kIgnoreEos, "ignore_eos"},
                                                   FlagName{kStopsOnlyBan, "stops_only_ban"},
                                                   FlagName{kRankCountsTies, "rank_counts_ties"}};

// The steps that a request may put in an order of its own; the others have a fixed place.
enum class Step : std::uint8_t {
    end = 0,  // a list's end; a list that begins with it stands for the default order
    penalties,
    dry,
    top_n_sigma,
    temperature,
    min_p,
    top_k,
    top_p,
    typical_p,
    xtc,
    count_
};
constexpr std::uint32_t kOrderSteps = 12;  // of which the last is always `end`
using StepOrder = std::array<Step, kOrderSteps>;
constexpr StepOrder kDefaultOrder = {Step::penalties,   Step::dry,       Step::top_n_sigma,
                                     Step::temperature, Step::min_p,     Step::top_k,
                                     Step::top_p,       Step::typical_p, Step::xtc};

constexpr std::uint32_t kMaxLogprobs = 1024;
constexpr std::uint32_t kMaxSessionLogprobs = 64;  // of a session, whose segment has room for them
constexpr std::uint32_t kMaxSupport = 1U << 16U;   // of a request, and of a session, likewise

enum class Rng : std::uint8_t { race = 0, shvs, sglang, vllm, count_ };
inline constexpr std::array kRngNames = {"race", "shvs", "sglang", "vllm"};
static_assert(kRngNames.size() == static_cast<std::size_t>(Rng::count_));

// The children of one request share its seed and differ in this: it has a word of the random counter to
// itself.
constexpr std::uint32_t kMostChildren = 1024;

enum class LogprobMode : std::uint8_t { raw = 0, processed, count_ };
inline constexpr std::array kLogprobModeNames = {"raw", "processed"};
static_assert(kLogprobModeNames.size() == static_cast<std::size_t>(LogprobMode::count_));

// Names and meanings are those of docs/semantics.md; each has a line in the table below.
struct SamplingParams {
    std::uint64_t seed = 0;
    double temperature = 1.0;
    double top_p = 1.0;
    double min_p = 0.0;
    double repetition_penalty = 1.0;
    double frequency_penalty = 0.0;
    double presence_penalty = 0.0;
    double dynatemp_range = 0.0;  // 0: off
    double dynatemp_exponent = 1.0;
    double top_n_sigma = -1.0;  // 0 or less: off
    double typical_p = 1.0;
    double xtc_probability = 0.0;
    double xtc_threshold = 0.1;
    double dry_multiplier = 0.0;  // 0: off
    double dry_base = 1.75;
    double mirostat_tau = 5.0;
    double mirostat_eta = 0.1;
    double adaptive_target = -1.0;  // below 0: off
    double adaptive_decay = 0.9;
    std::int32_t top_k = 0;  // 0 or -1: off
    std::int32_t eos_token_id = -1;
    std::uint32_t min_tokens = 0;
    std::uint32_t max_tokens = 0;  // 0: bounded by the session's longest sequence only
    std::uint32_t flags = 0;
    std::uint32_t child = 0;               // 0, or the number among a request's `n`
    std::int32_t penalty_last_n = -1;      // -1: prompt and output, each as its penalty says; 0: no penalties
    std::int32_t dry_penalty_last_n = -1;  // -1: the whole history; 0: off
    std::int32_t dry_allowed_length = 2;
    std::uint32_t logprobs = 0;  // how many of the best, beside the drawn token's own
    std::uint8_t mirostat = 0;   // 1 and 2: its versions
    Rng rng = Rng::race;
    LogprobMode logprob_mode = LogprobMode::raw;
    std::uint8_t loop_count = 0;  // how many repeats of a tail of loop_min_period to loop_max_period tokens
    StepOrder order{};
    std::uint32_t support = 0;          // how many of the likeliest that were left to draw from are answered
    std::uint16_t loop_max_period = 0;  // 0: off
    std::uint16_t loop_min_period = 0;  // 0: 1
};
static_assert(sizeof(SamplingParams) == 216 && std::is_trivially_copyable_v<SamplingParams>,
              "SamplingParams crosses processes: a new field stands at its end, and 0 switches it off");

struct TokenBias {
    std::int32_t token;
    float bias;
};
static_assert(sizeof(TokenBias) == 8);
constexpr std::uint32_t kMaxBias = 4096;  // of a request

// Stop strings of a request, and the bytes of one.
constexpr std::uint32_t kMaxStopStrings = 16;
constexpr std::uint32_t kMaxStopStringBytes = 256;

// Of a tail that repeats (sampler/loops.h).
constexpr std::uint32_t kMaxLoopPeriod = 256;

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
          "bans EOS and stop ids until the output has this many tokens, and passes over stop strings, "      \
          "loops and JSON values")                                                                           \
    FIELD(max_tokens, "max_tokens", at_least(0), "0 to 2^32 - 1", at_most(0),                                \
          "ends the sequence when the output has this many tokens")                                          \
    FIELD(flags, nullptr, from_to(0, kAllFlags),                                                             \
          "the sum of 1 (ignore EOS), 2 (no log-prob), 4 (EOS and stop ids only ban), 8 (rank with ties), "  \
          "16 (stop string in the text), 32 (special tokens in the text) and 64 (stop at a JSON value)",     \
          at_most(0), "options of the decision")                                                             \
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
    FIELD(loop_count, "loop_count", from_to(0, 255), "2 to 255 with loop_max_period, or 0", at_most(0),      \
          "how many times in a row a tail must stand to end the sequence")                                   \
    FIELD(support, nullptr, from_to(0, kMaxSupport), "0 to 65536", at_most(0),                               \
          "answers this many of the tokens left to draw from with their probabilities, most likely first")   \
    FIELD(                                                                                                   \
        loop_max_period, "loop_max_period", from_to(0, kMaxLoopPeriod), "0 to 256", at_most(0),              \
        "ends the sequence when its output ends with loop_count copies of a tail of up to this many tokens") \
    FIELD(loop_min_period, "loop_min_period", from_to(0, kMaxLoopPeriod),                                    \
          "0 to 256, at most loop_max_period", never(),                                                      \
          "the shortest tail that loop_max_period counts; 0 is 1")

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
static_assert(bytes_of_sampling_fields<SamplingParams>() + sizeof(SamplingParams::order) ==
                  sizeof(SamplingParams),
              "the table lacks a field of SamplingParams");

struct StepFacts {
    enum class Kind : std::uint8_t { none, changes_logits, sets_temperature, filters };

    const char* name;
    Kind kind;
    // Whether the step's parameters have values that do anything, wherever the step stands in the order.
    bool (*is_switched_on)(const SamplingParams& params);
};

// The table of the steps, in the order of Step.
inline constexpr std::array kSteps = {
    StepFacts{"", StepFacts::Kind::none, [](const SamplingParams&) { return false; }},
    StepFacts{"penalties", StepFacts::Kind::changes_logits,
              [](const SamplingParams& params) {
                  return fields::penalty_last_n.is_on(params) &&
                         (fields::repetition_penalty.is_on(params) ||
                          fields::frequency_penalty.is_on(params) || fields::presence_penalty.is_on(params));
              }},
    StepFacts{"dry", StepFacts::Kind::changes_logits,
              [](const SamplingParams& params) {
                  return fields::dry_multiplier.is_on(params) && fields::dry_penalty_last_n.is_on(params);
              }},
    StepFacts{"top_n_sigma", StepFacts::Kind::filters,
              [](const SamplingParams& params) { return fields::top_n_sigma.is_on(params); }},
    StepFacts{"temperature", StepFacts::Kind::sets_temperature, [](const SamplingParams&) { return true; }},
    StepFacts{"min_p", StepFacts::Kind::filters,
              [](const SamplingParams& params) { return fields::min_p.is_on(params); }},
    StepFacts{"top_k", StepFacts::Kind::filters,
              [](const SamplingParams& params) { return fields::top_k.is_on(params); }},
    StepFacts{"top_p", StepFacts::Kind::filters,
              [](const SamplingParams& params) { return fields::top_p.is_on(params); }},
    StepFacts{"typical_p", StepFacts::Kind::filters,
              [](const SamplingParams& params) { return fields::typical_p.is_on(params); }},
    StepFacts{"xtc", StepFacts::Kind::filters,
              [](const SamplingParams& params) {
                  return fields::xtc_probability.is_on(params) && fields::xtc_threshold.is_on(params);
              }},
};
static_assert(kSteps.size() == static_cast<std::size_t>(Step::count_));

// A number that is no step, which a broken segment may have, counts as `end`.
constexpr const StepFacts& facts_of(Step step) {
    return kSteps[step < Step::count_ ? static_cast<std::size_t>(step) : 0];
}

// Without the end of an order, which has no name.
inline constexpr auto kStepNames = [] {
    std::array<const char*, kSteps.size() - 1> names{};
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = kSteps[i + 1].name;
    return names;
}();

}  // namespace croupier::proto
