#include "proto/param_ranges.h"

#include <cmath>
#include <sstream>

#include "proto/sampling.h"

namespace croupier::proto {
namespace {

template <typename T>
ParamFault fault_of(const SamplingField<T>& field, const SamplingParams& params, const char* range) {
    return {field.name, field.number(params), range};
}

// The first field, as the table has them, that is outside its range.
std::optional<ParamFault> range_fault(const SamplingParams& params) {
    std::optional<ParamFault> found;
    for_each_sampling_field([&](const auto& field) {
        if (found || field.allowed.has(field.number(params))) return;
        found = fault_of(field, params, field.range);
    });
    return found;
}

// What fields that are each in their range may not be together.
std::optional<ParamFault> pair_fault(const SamplingParams& params) {
    // Their noise has no place for it: children that share a seed would draw alike.
    if (params.child != 0 && params.rng != Rng::race && params.rng != Rng::shvs) {
        return fault_of(fields::child, params,
                        "0 with rng sglang or vllm, whose children differ in their seed");
    }
    if (fields::mirostat.is_on(params) && fields::adaptive_target.is_on(params)) {
        return fault_of(fields::adaptive_target, params, "-1 (off) when mirostat is on");
    }
    if (fields::max_tokens.is_on(params) && params.min_tokens > params.max_tokens) {
        return fault_of(fields::min_tokens, params, fields::min_tokens.range);
    }
    if (fields::loop_max_period.is_on(params) && params.loop_count < 2) {
        return fault_of(fields::loop_count, params, fields::loop_count.range);
    }
    if (std::uint32_t{params.loop_max_period} * params.loop_count > kMaxLoopTokens) {
        static_assert(kMaxLoopTokens == 4096);
        return fault_of(fields::loop_count, params, "up to 4096 / loop_max_period");
    }
    if (params.loop_min_period > params.loop_max_period) {
        return fault_of(fields::loop_min_period, params, fields::loop_min_period.range);
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

}  // namespace

std::optional<ParamFault> param_fault(const SamplingParams& params) noexcept {
    if (const auto fault = range_fault(params)) return fault;
    if (const auto fault = pair_fault(params)) return fault;
    return order_fault(params.order);
}

std::string describe(const ParamFault& fault) {
    std::ostringstream text;
    text << fault.field << " is " << fault.value << "; allowed: " << fault.range;
    return text.str();
}

const char* first_field_beyond(const SamplingParams& params, std::size_t bytes) {
    const char* found = "a parameter";
    bool searching = true;
    for_each_sampling_field([&](const auto& field) {
        const auto* member = reinterpret_cast<const std::byte*>(&(params.*field.member));
        const auto* first = reinterpret_cast<const std::byte*>(&params);
        const auto end = static_cast<std::size_t>(member - first) + sizeof(params.*field.member);
        if (!searching || end <= bytes || field.number(params) == 0.0) return;
        found = field.name;
        searching = false;
    });
    return found;
}

bool bias_in_range(float bias) noexcept {
    return std::abs(bias) <= 100.0F;
}

}  // namespace croupier::proto
