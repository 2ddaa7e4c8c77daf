#include "text/sequence_text.h"

#include <stdexcept>

namespace croupier::text {

SequenceText::SequenceText(const TokenTable& table, const TextRules& rules,
                           std::span<const std::int32_t> prompt)
    : decoder_(table, rules.skip_special),
      stops_(rules.stops),
      min_tokens_(rules.min_tokens),
      include_stop_(rules.include_stop),
      stop_at_json_(rules.stop_at_json) {
    state_.decoder = decoder_.begin(prompt);
    states_.push_back(state_);
}

TextProgress SequenceText::add(std::int32_t token, std::string& text) {
    const std::size_t from = text.size();
    decoder_.decode(state_.decoder, token, text);
    ++state_.tokens;
    TextProgress progress;
    if (!stops_.empty() || stop_at_json_) progress = search(std::string_view(text).substr(from));
    state_.bytes += text.size() - from;
    if (state_.tokens % kTokensPerState == 0) states_.push_back(state_);
    if (progress.stop) return progress;
    progress.released = released();
    return progress;
}

// Of several that a token completes the first counts. All of the text is searched: what follows depends on
// the tokens alone, whether they were added after a stop or not.
std::optional<StopAutomaton::Match> SequenceText::first_stop(std::string_view added) {
    std::optional<StopAutomaton::Match> first;
    if (stops_.empty()) return first;
    std::size_t at = 0;
    while (const auto match = stops_.find(state_.node, added.substr(at))) {
        at += match->end;
        if (!first) first = {match->stop, at};
    }
    return first;
}

std::optional<JsonAutomaton::Value> SequenceText::first_value(std::string_view added) {
    std::optional<JsonAutomaton::Value> first;
    if (!stop_at_json_) return first;
    while (const auto value = state_.json.find(added)) {
        if (!first) first = value;
        added.remove_prefix(value->complete);
    }
    return first;
}

TextProgress SequenceText::search(std::string_view added) {
    const auto stop = first_stop(added);
    const auto value = first_value(added);
    if (state_.tokens <= min_tokens_ || (!stop && !value)) return {};
    if (stop && (!value || stop->end <= value->complete)) {
        const std::uint64_t end = state_.bytes + stop->end;
        const std::uint64_t begin = end - stops_.length(stop->stop);
        const auto index = static_cast<std::uint32_t>(stop->stop);
        return {include_stop_ ? end : begin, FoundStop{index, begin}};
    }
    const std::uint64_t end = state_.bytes + value->end;
    return {end, FoundStop{0, end - value->bytes, FoundStop::Kind::json}};
}

TextProgress SequenceText::finish(std::string& text) const {
    const std::size_t from = text.size();
    DecoderState state = state_.decoder;
    decoder_.finish(state, text);
    return {state_.bytes + text.size() - from, std::nullopt};
}

std::uint64_t SequenceText::truncate(std::size_t tokens, std::span<const std::int32_t> output) {
    if (tokens == state_.tokens) return state_.bytes;
    if (tokens > state_.tokens || tokens > output.size()) {
        throw std::out_of_range("the text has " + std::to_string(state_.tokens) + " tokens, of which " +
                                std::to_string(output.size()) + " were given: it cannot go back to " +
                                std::to_string(tokens));
    }
    states_.resize(tokens / kTokensPerState + 1);
    state_ = states_.back();
    std::string text;
    while (state_.tokens < tokens) {
        text.clear();
        add(output[state_.tokens], text);
    }
    return state_.bytes;
}

}  // namespace croupier::text
