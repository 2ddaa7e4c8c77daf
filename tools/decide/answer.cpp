#include "tools/decide/answer.h"

#include <algorithm>
#include <exception>
#include <span>

#include "explain/faults.h"
#include "explain/target.h"

namespace croupier::tools {
namespace {

explain::OrderedJson support_of(const explain::Outcome& outcome) {
    explain::OrderedJson list = explain::OrderedJson::array();
    for (const sampler::Survivor& each : outcome.support) list.push_back({each.token, each.probability});
    return list;
}

// The drawn token's log-prob and those of the `best` best tokens.
explain::OrderedJson logprobs_of(const explain::Outcome& outcome, std::size_t best) {
    explain::OrderedJson list = explain::OrderedJson::array();
    const std::span all(outcome.logprobs);
    for (const sampler::RankedLogprob& each : all.first(std::min(best + 1, all.size()))) {
        list.push_back({each.token, explain::number(explain::shortest(each.logprob)), each.rank});
    }
    return list;
}

bool carries_feedback(const proto::SamplingParams& params) {
    return params.mirostat != 0 || params.adaptive_target >= 0.0;
}

explain::OrderedJson child_answer(const explain::Case& of, std::uint32_t child, explain::Decider& decider) {
    explain::OrderedJson result = explain::OrderedJson::object();
    explain::OrderedJson tokens = explain::OrderedJson::array();
    for (std::uint32_t draw = 0; draw < of.draws; ++draw) {
        const explain::Asked asked(of, child, draw);
        const explain::Outcome outcome = decider.decide(of.row.view(), asked.request(), of.impl);
        if (outcome.decision.error != proto::DecisionError::none) {
            return {{"error", explain::describe(outcome.decision.error, of)}};
        }
        tokens.push_back(outcome.decision.token);
        if (draw > 0) continue;
        if (of.wants_support) result["support"] = support_of(outcome);
        if (of.wants_logprobs) result["logprobs"] = logprobs_of(outcome, of.params.sampling.logprobs);
        if (carries_feedback(of.params.sampling)) {
            result["feedback"] = {{"level", explain::number(outcome.feedback.level)},
                                  {"weight", explain::number(outcome.feedback.weight)}};
        }
        result["flags"] = explain::flag_names(outcome.decision.flags);
    }
    explain::OrderedJson ordered = {{"tokens", std::move(tokens)}};
    ordered.update(result);
    return ordered;
}

explain::OrderedJson error_line(const std::string& where, const std::string& what) {
    return {{"error", where + ": " + what}};
}

}  // namespace

explain::OrderedJson answer(const explain::Case& of, explain::Decider& decider) {
    explain::use_target(of.target);
    if (of.params.children == 1) return child_answer(of, 0, decider);
    explain::OrderedJson children = explain::OrderedJson::array();
    for (std::uint32_t child = 0; child < of.params.children; ++child) {
        children.push_back(child_answer(of, child, decider));
    }
    return {{"children", std::move(children)}};
}

std::string answer_line(std::string_view line, const std::string& where, explain::RowFiles& files,
                        explain::Decider& decider) {
    explain::OrderedJson result;
    try {
        result = answer(explain::read_case(explain::parse_json(line), files), decider);
    } catch (const explain::RequestError& error) {
        result = error_line(where, error.what());
    } catch (const std::exception& error) {
        result = error_line(where, std::string("cannot be decided: ") + error.what());
    }
    return result.dump(-1, ' ', false, explain::OrderedJson::error_handler_t::replace);
}

}  // namespace croupier::tools
