#include "tools/decide/answer.h"

#include <charconv>
#include <cmath>
#include <exception>
#include <iterator>

#include "tools/decide/faults.h"
#include "tools/decide/target.h"

namespace croupier::tools {
namespace {

OrderedJson support_of(const Outcome& outcome) {
    OrderedJson list = OrderedJson::array();
    for (const sampler::Survivor& each : outcome.support) list.push_back({each.token, each.probability});
    return list;
}

// The shortest decimal that is the same float, not the double that a float widens to.
double shortest(float value) {
    char text[32];
    const auto written = std::to_chars(std::begin(text), std::end(text), value);
    auto result = static_cast<double>(value);
    if (std::isfinite(value)) std::from_chars(std::begin(text), written.ptr, result);
    return result;
}

OrderedJson logprobs_of(const Outcome& outcome) {
    OrderedJson list = OrderedJson::array();
    for (const sampler::RankedLogprob& each : outcome.logprobs) {
        list.push_back({each.token, number(shortest(each.logprob)), each.rank});
    }
    return list;
}

bool carries_feedback(const proto::SamplingParams& params) {
    return params.mirostat != 0 || params.adaptive_target >= 0.0;
}

OrderedJson child_answer(const Case& of, std::uint32_t child, Decider& decider) {
    OrderedJson result = OrderedJson::object();
    OrderedJson tokens = OrderedJson::array();
    for (std::uint32_t draw = 0; draw < of.draws; ++draw) {
        const Asked asked(of, child, draw);
        const Outcome outcome = decider.decide(of.row.view(), asked.request(), of.impl);
        if (outcome.decision.error != proto::DecisionError::none) {
            return {{"error", describe(outcome.decision.error, of)}};
        }
        tokens.push_back(outcome.decision.token);
        if (draw > 0) continue;
        if (of.wants_support) result["support"] = support_of(outcome);
        if (of.wants_logprobs) result["logprobs"] = logprobs_of(outcome);
        if (carries_feedback(of.params.sampling)) {
            result["feedback"] = {{"level", number(outcome.feedback.level)},
                                  {"weight", number(outcome.feedback.weight)}};
        }
        result["flags"] = flag_names(outcome.decision.flags);
    }
    OrderedJson ordered = {{"tokens", std::move(tokens)}};
    ordered.update(result);
    return ordered;
}

OrderedJson error_line(const std::string& where, const std::string& what) {
    return {{"error", where + ": " + what}};
}

}  // namespace

std::vector<std::string> flag_names(std::uint16_t flags) {
    static const std::vector<std::pair<std::uint16_t, const char*>> names = {
        {proto::kStoppedByEos, "stopped_by_eos"},
        {proto::kStoppedByToken, "stopped_by_token"},
        {proto::kStoppedByLength, "stopped_by_length"},
        {proto::kGreedy, "greedy"},
        {proto::kTruncated, "truncated"}};
    std::vector<std::string> result;
    for (const auto& [bit, name] : names) {
        if ((flags & bit) != 0) result.emplace_back(name);
    }
    return result;
}

OrderedJson number(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    return value;
}

OrderedJson answer(const Case& of, Decider& decider) {
    use_target(of.target);
    if (of.params.children == 1) return child_answer(of, 0, decider);
    OrderedJson children = OrderedJson::array();
    for (std::uint32_t child = 0; child < of.params.children; ++child) {
        children.push_back(child_answer(of, child, decider));
    }
    return {{"children", std::move(children)}};
}

std::string answer_line(std::string_view line, const std::string& where, RowFiles& files, Decider& decider) {
    OrderedJson result;
    try {
        result = answer(read_case(parse_json(line), files), decider);
    } catch (const RequestError& error) {
        result = error_line(where, error.what());
    } catch (const std::exception& error) {
        result = error_line(where, std::string("could not be decided: ") + error.what());
    }
    return result.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace croupier::tools
