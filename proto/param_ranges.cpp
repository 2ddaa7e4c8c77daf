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
};

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
    if (params.top_k < -1) {
        return ParamFault{"top_k", static_cast<double>(params.top_k), "at least 1, or 0 or -1 for off"};
    }
    if (params.eos_token_id < -1) {
        return ParamFault{"eos_token_id", static_cast<double>(params.eos_token_id),
                          "a token id, or -1 for none"};
    }
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
