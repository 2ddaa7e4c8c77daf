#include "proto/param_ranges.h"

#include <array>
#include <cmath>
#include <sstream>

namespace croupier::proto {
namespace {

struct RealRange {
    const char* field;
    double SamplingParams::*member;
    double low;
    double high;
    bool low_allowed;
    const char* text;
};

constexpr std::array kRealRanges = {
    RealRange{"temperature", &SamplingParams::temperature, 0.0, 100.0, true, "0 to 100"},
    RealRange{"top_p", &SamplingParams::top_p, 0.0, 1.0, false, "above 0, up to 1"},
    RealRange{"min_p", &SamplingParams::min_p, 0.0, 1.0, true, "0 to 1"},
    RealRange{"repetition_penalty", &SamplingParams::repetition_penalty, 0.01, 100.0, true, "0.01 to 100"},
    RealRange{"frequency_penalty", &SamplingParams::frequency_penalty, -2.0, 2.0, true, "-2 to 2"},
    RealRange{"presence_penalty", &SamplingParams::presence_penalty, -2.0, 2.0, true, "-2 to 2"},
    RealRange{"dynatemp_range", &SamplingParams::dynatemp_range, 0.0, 100.0, true, "0 to 100"},
    RealRange{"dynatemp_exponent", &SamplingParams::dynatemp_exponent, 0.0, 100.0, true, "0 to 100"},
    RealRange{"top_n_sigma", &SamplingParams::top_n_sigma, -1.0, 100.0, true, "-1 to 100 (0 or less is off)"},
    RealRange{"typical_p", &SamplingParams::typical_p, 0.0, 1.0, false, "above 0, up to 1"},
    RealRange{"xtc_probability", &SamplingParams::xtc_probability, 0.0, 1.0, true, "0 to 1"},
    RealRange{"xtc_threshold", &SamplingParams::xtc_threshold, 0.0, 1.0, true, "0 to 1"},
    RealRange{"dry_multiplier", &SamplingParams::dry_multiplier, 0.0, 100.0, true, "0 to 100"},
    RealRange{"dry_base", &SamplingParams::dry_base, 1.0, 100.0, true, "1 to 100"},
    RealRange{"mirostat_tau", &SamplingParams::mirostat_tau, 0.0, 100.0, true, "0 to 100"},
    RealRange{"mirostat_eta", &SamplingParams::mirostat_eta, 0.0, 1.0, true, "0 to 1"},
    RealRange{"adaptive_target", &SamplingParams::adaptive_target, -1.0, 1.0, true, "0 to 1, or -1 for off"},
    RealRange{"adaptive_decay", &SamplingParams::adaptive_decay, 0.0, 0.99, true, "0 to 0.99"},
};

struct WholeRange {
    const char* field;
    std::int32_t SamplingParams::*member;
    std::int32_t low;
    const char* text;
};

constexpr std::array kWholeRanges = {
    WholeRange{"top_k", &SamplingParams::top_k, -1, "at least 1, or 0 or -1 for off"},
    WholeRange{"eos_token_id", &SamplingParams::eos_token_id, -1, "a token id, or -1 for none"},
    WholeRange{"penalty_last_n", &SamplingParams::penalty_last_n, -1, "at least 0, or -1 for all"},
    WholeRange{"dry_penalty_last_n", &SamplingParams::dry_penalty_last_n, -1, "at least 0, or -1 for all"},
    WholeRange{"dry_allowed_length", &SamplingParams::dry_allowed_length, 1, "at least 1"},
};

std::optional<ParamFault> choice_fault(const SamplingParams& params) {
    if (params.mirostat > 2) return ParamFault{"mirostat", static_cast<double>(params.mirostat), "0, 1 or 2"};
    if (params.rng >= Rng::count_) {
        return ParamFault{"rng", static_cast<double>(params.rng), "race, shvs, sglang or vllm (0 to 3)"};
    }
    if (params.child >= kMostChildren) {
        return ParamFault{"child", static_cast<double>(params.child), "0 to 1023"};
    }
    // Their noise has no place for it: children that share a seed would draw alike.
    if (params.child != 0 && params.rng != Rng::race && params.rng != Rng::shvs) {
        return ParamFault{"child", static_cast<double>(params.child),
                          "0 with rng sglang or vllm, whose children differ in their seed"};
    }
    if (params.logprob_mode >= LogprobMode::count_) {
        return ParamFault{"logprob_mode", static_cast<double>(params.logprob_mode),
                          "raw or processed (0 or 1)"};
    }
    if (params.logprobs > kMaxLogprobs) {
        return ParamFault{"logprobs", static_cast<double>(params.logprobs), "0 to 1024"};
    }
    if (params.mirostat != 0 && params.adaptive_target >= 0.0) {
        return ParamFault{"adaptive_target", params.adaptive_target, "-1 (off) when mirostat is on"};
    }
    return std::nullopt;
}

// A step may stand in a list once: llama.cpp applies it twice, which no one has asked for on purpose.
std::optional<ParamFault> order_fault(const StepOrder& order) {
    std::uint32_t seen = 0;
    bool ended = false;
    for (const Step step : order) {
        const auto number = static_cast<std::uint32_t>(step);
        const bool known = step < Step::count_;
        const bool again = known && step != Step::end && (seen & (1U << number)) != 0;
        if (!known || again || (ended && step != Step::end)) {
            return ParamFault{"order", static_cast<double>(number), "each step at most once, then the end"};
        }
        ended = step == Step::end;
        seen |= 1U << number;
    }
    if (!ended) return ParamFault{"order", static_cast<double>(order.back()), "a list with an end"};
    return std::nullopt;
}

// Written so that NaN, which compares false, is outside.
bool inside(const RealRange& range, double value) {
    return (range.low_allowed ? value >= range.low : value > range.low) && value <= range.high;
}

}  // namespace

std::optional<ParamFault> param_fault(const SamplingParams& params) noexcept {
    for (const RealRange& range : kRealRanges) {
        const double value = params.*range.member;
        if (!inside(range, value)) return ParamFault{range.field, value, range.text};
    }
    for (const WholeRange& range : kWholeRanges) {
        const std::int32_t value = params.*range.member;
        if (value < range.low) return ParamFault{range.field, static_cast<double>(value), range.text};
    }
    if (const auto fault = choice_fault(params)) return fault;
    if (const auto fault = order_fault(params.order)) return fault;
    if (params.max_tokens > 0 && params.min_tokens > params.max_tokens) {
        return ParamFault{"min_tokens", static_cast<double>(params.min_tokens), "at most max_tokens"};
    }
    if ((params.flags & ~(kIgnoreEos | kNoLogprob)) != 0) {
        return ParamFault{"flags", static_cast<double>(params.flags),
                          "the sum of 1 (ignore EOS) and 2 (no log-prob)"};
    }
    return std::nullopt;
}

std::string describe(const ParamFault& fault) {
    std::ostringstream text;
    text << fault.field << " is " << fault.value << "; allowed: " << fault.range;
    return text.str();
}

bool bias_in_range(float bias) noexcept {
    return std::abs(bias) <= 100.0F;
}

}  // namespace croupier::proto
