#include "explain/explained.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "explain/faults.h"
#include "request/draw.h"
#include "sampler/proposal_draw.h"
#include "text/sequence_text.h"
#include "text/shown_text.h"

namespace croupier::explain {
namespace {

constexpr std::size_t kTop = 20;
constexpr std::size_t kCut = 10;
constexpr std::size_t kHistory = 48;  // tokens

// The softmax of the original row.
class Before {
  public:
    explicit Before(const Row& row) : row_(row) {
        double greatest = -std::numeric_limits<double>::infinity();
        const auto vocab = static_cast<std::int32_t>(row.vocab());
        for (std::int32_t id = 0; id < vocab; ++id) greatest = std::max(greatest, row.logit(id));
        double total = 0.0;
        for (std::int32_t id = 0; id < vocab; ++id) total += std::exp(row.logit(id) - greatest);
        log_total_ = greatest + std::log(total);
    }
    double operator()(std::int32_t token) const { return std::exp(row_.logit(token) - log_total_); }

  private:
    const Row& row_;
    double log_total_ = 0.0;
};

std::string chooser_of(const proto::SamplingParams& params) {
    const bool replaced = request::replaces_draw(params);
    if (request::is_greedy(params)) return "greedy: the first of the largest logits";
    if (params.rng == proto::Rng::sglang && !replaced)
        return "rng sglang: the largest of log-prob plus SGLang's noise";
    if (params.rng == proto::Rng::vllm && !replaced)
        return "rng vllm: the largest of logit / T plus vLLM's noise";
    return request::proposes(params) && !replaced
               ? "rng shvs: an accepted proposal (see the step `draw`)"
               : "the race: the largest logit / T - ln(arrival) among the remaining tokens";
}

TokenShare share_of(const Case& of, const sampler::Survivor& survivor, double before, bool drawn,
                    const TokenTexts& texts) {
    const auto times = [&](const std::vector<std::int32_t>& tokens) {
        return static_cast<std::size_t>(std::count(tokens.begin(), tokens.end(), survivor.token));
    };
    const auto bias = std::find_if(of.params.bias.begin(), of.params.bias.end(),
                                   [&](const auto& each) { return each.token == survivor.token; });
    return {.token = survivor.token,
            .text = texts.shown(survivor.token),
            .before = before,
            .after = survivor.probability,
            .drawn = drawn,
            .in_prompt = times(of.prompt),
            .in_output = times(of.output),
            .bias = bias == of.params.bias.end() ? 0.0F : bias->bias};
}

void add_top(const Case& of, const TokenTexts& texts, const Before& before, Explained& result) {
    const std::int32_t drawn = result.outcome.decision.token;
    double shown = 0.0;
    std::size_t place = 0;
    for (const sampler::Survivor& each : result.outcome.support) {
        if (place++ >= kTop && each.token != drawn) continue;
        result.top.push_back(share_of(of, each, before(each.token), each.token == drawn, texts));
        shown += each.probability;
    }
    const bool all = result.top.size() == result.outcome.support.size();
    result.others = all ? 0.0 : std::max(0.0, 1.0 - shown);
}

void add_cut(const Case& of, const TokenTexts& texts, const Before& before, Explained& result) {
    std::vector<bool> stays(of.row.vocab());
    for (const sampler::Survivor& each : result.outcome.support)
        stays[static_cast<std::size_t>(each.token)] = true;
    std::vector<std::int32_t> gone;
    for (std::size_t id = 0; id < stays.size(); ++id) {
        if (!stays[id]) gone.push_back(static_cast<std::int32_t>(id));
    }
    const auto end = gone.begin() + static_cast<std::ptrdiff_t>(std::min(kCut, gone.size()));
    std::partial_sort(gone.begin(), end, gone.end(), [&](std::int32_t a, std::int32_t b) {
        return of.row.logit(a) != of.row.logit(b) ? of.row.logit(a) > of.row.logit(b) : a < b;
    });
    for (auto id = gone.begin(); id != end; ++id)
        result.cut.push_back(
            share_of(of, {.token = *id, .reserved = 0, .probability = 0.0}, before(*id), false, texts));
}

std::string history_of(const Case& of, const TokenTexts& texts) {
    std::vector<std::int32_t> tokens = of.prompt;
    tokens.insert(tokens.end(), of.output.begin(), of.output.end());
    return texts.shown(tokens, kHistory);
}

// Of tokens that have a text. Without one nobody but the daemon knows what the token completes.
std::optional<text::FoundStop> completed_by(const Case& of, const TokenTexts& texts, std::int32_t token) {
    const bool stops = !of.stop_strings.empty() || of.stop_at_json;
    if (!stops || texts.empty() || !texts.table().fault().empty()) return std::nullopt;
    const text::TextRules rules{of.stop_strings, of.params.sampling.min_tokens, false, !of.keep_special,
                                of.stop_at_json};
    text::SequenceText sequence(texts.table(), rules, of.prompt);
    std::string unused;
    for (const std::int32_t each : of.output) (void)sequence.add(each, unused);
    return sequence.add(token, unused).stop;
}

bool is_json(const text::FoundStop& stop) {
    return stop.kind == text::FoundStop::Kind::json;
}

void add_running(Explained& result) {
    double end = 0.0;
    for (const sampler::Survivor& each : result.outcome.support)
        result.running.push_back(end += each.probability);
}

}  // namespace

const TokenShare& Explained::drawn() const {
    return *std::find_if(top.begin(), top.end(), [](const TokenShare& each) { return each.drawn; });
}

Explained explain_case(Case of, Decider& decider, const TokenTexts& texts) {
    texts.check_fits(of.row.vocab());
    of.wants_support = true;
    of.wants_logprobs = true;
    of.params.sampling.flags &= ~proto::kNoLogprob;
    const proto::SamplingParams& params = of.params.sampling;
    const Asked asked(of, 0, 0);

    Explained result;
    result.outcome = decider.decide(of.row.view(), asked.request(), Impl::reference);
    const proto::Decision& decision = result.outcome.decision;
    if (decision.error != proto::DecisionError::none) throw RequestError(describe(decision.error, of));
    const Outcome fast = decider.decide(of.row.view(), asked.request(), Impl::fast);
    result.fast = {fast.path, fast.decision.token, fast.decision.flags};
    result.vocab = of.row.vocab();
    result.dtype = dtype_names()[static_cast<std::size_t>(of.row.dtype())];
    result.seed = params.seed;
    result.position = of.position;
    result.chooser = chooser_of(params);
    result.text = texts.shown(decision.token);
    result.decided = of.decided;
    if (!texts.empty()) result.history = history_of(of, texts);
    if (const std::string& fault = texts.table().fault(); !fault.empty())
        result.note = "Tokens are shown as the tokenizer's file writes them: " + fault;
    for (const std::string& stop : of.stop_strings)
        result.stop_strings.push_back("\"" + text::shown_text(stop) + "\"");
    result.stop_at_json = of.stop_at_json;
    result.completed = completed_by(of, texts, decision.token);
    const Before before(of.row);
    add_top(of, texts, before, result);
    add_cut(of, texts, before, result);
    add_running(result);
    return result;
}

std::string agreement_in_words(const Explained& explained) {
    if (!explained.decided) return "";
    const Decided& decided = *explained.decided;
    const std::string where = fmt::format("in step {} it decided", decided.step);
    if (decided.token == explained.outcome.decision.token)
        return fmt::format("{} the same token, by path '{}'", where, decided.path);
    return fmt::format("{} a DIFFERENT token, {}, by path '{}': please report this bug", where, decided.token,
                       decided.path);
}

std::string flags_in_words(const Explained& explained) {
    const auto names = flag_names(explained.outcome.decision.flags);
    return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

std::string stops_in_words(const Explained& explained) {
    std::string text;
    if (!explained.stop_strings.empty())
        text = fmt::format("stop strings: {}", fmt::join(explained.stop_strings, ", "));
    if (explained.stop_at_json) text += text.empty() ? "stop_at_json" : ", and stop_at_json";
    if (const auto& stop = explained.completed) {
        text += fmt::format("; the token completes {}",
                            is_json(*stop) ? "a JSON value" : explained.stop_strings[stop->index]);
    }
    return text;
}

std::string standing_in_words(const TokenShare& share) {
    std::vector<std::string> parts;
    if (share.in_prompt > 0) parts.push_back(fmt::format("{} in the prompt", share.in_prompt));
    if (share.in_output > 0) parts.push_back(fmt::format("{} in the output", share.in_output));
    if (share.bias != 0.0F) parts.push_back(fmt::format("bias {:+g}", share.bias));
    return fmt::format("{}", fmt::join(parts, ", "));
}

OrderedJson to_json(const Explained& e) {
    OrderedJson steps = OrderedJson::array();
    for (const auto& step : e.outcome.account) {
        steps.push_back({{"step", step.step},
                         {"tokens_left", step.tokens_left},
                         {"mass_left", number(step.mass_left)},
                         {"did", step.did}});
    }
    OrderedJson top = OrderedJson::array();
    for (const TokenShare& each : e.top) {
        OrderedJson share = {{"token", each.token}};
        if (!each.text.empty()) share["text"] = each.text;
        share.update(OrderedJson{{"before", each.before},
                                 {"after", each.after},
                                 {"in_prompt", each.in_prompt},
                                 {"in_output", each.in_output},
                                 {"bias", each.bias}});
        top.push_back(std::move(share));
    }
    OrderedJson result = {{"token", e.outcome.decision.token},
                          {"probability", e.drawn().after},
                          {"logprob", number(e.drawn_logprob().logprob)},
                          {"rank", e.drawn_logprob().rank},
                          {"flags", flag_names(e.outcome.decision.flags)},
                          // As text: a reader of JSON may round numbers beyond 2^53.
                          {"seed", std::to_string(e.seed)},
                          {"position", e.position},
                          {"vocab", e.vocab},
                          {"dtype", e.dtype},
                          {"tokens_left", e.outcome.support.size()},
                          {"chosen_by", e.chooser}};
    if (!e.text.empty()) result["text"] = e.text;
    if (!e.history.empty()) result["history"] = e.history;
    if (!e.note.empty()) result["note"] = e.note;
    if (!e.stop_strings.empty()) result["stop_strings"] = e.stop_strings;
    if (e.stop_at_json) result["stop_at_json"] = true;
    if (e.completed && is_json(*e.completed)) result["completes_json"] = true;
    if (e.completed && !is_json(*e.completed)) result["completes_stop_string"] = e.completed->index;
    if (e.decided) {
        result["decided"] = {
            {"step", e.decided->step}, {"token", e.decided->token}, {"path", e.decided->path}};
    }
    result["fast"] = {{"path", e.fast.path}, {"token", e.fast.token}, {"flags", flag_names(e.fast.flags)}};
    result["steps"] = std::move(steps);
    result["top"] = std::move(top);
    result["others"] = e.others;
    return result;
}

}  // namespace croupier::explain
