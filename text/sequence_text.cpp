#include "text/sequence_text.h"

#include <stdexcept>

namespace croupier::text {

SequenceText::SequenceText(const TokenTable& table, const TextRules& rules,
                           std::span<const std::int32_t> prompt)
    : decoder_(table, rules.skip_special),
      stops_(rules.stops),
      min_tokens_(rules.min_tokens),
      include_stop_(rules.include_stop) {
    state_.decoder = decoder_.begin(prompt);
    states_.push_back(state_);
}

TextProgress SequenceText::add(std::int32_t token, std::string& text) {
    const std::size_t from = text.size();
    decoder_.decode(state_.decoder, token, text);
    ++state_.tokens;
    TextProgress progress;
    if (!stops_.empty()) progress = search(std::string_view(text).substr(from));
    state_.bytes += text.size() - from;
    if (state_.tokens % kTokensPerState == 0) states_.push_back(state_);
    if (progress.stop) return progress;
    progress.released = released();
    return progress;
}

// Matches within the first min_tokens tokens are passed over, and so are those behind the first. All of the
// text is searched: what follows depends on the tokens alone, whether they were added after a stop or not.
TextProgress SequenceText::search(std::string_view added) {
    TextProgress progress;
    std::uint64_t at = state_.bytes;
    while (const auto match = stops_.find(state_.node, added)) {
        at += match->end;
        added.remove_prefix(match->end);
        if (progress.stop || state_.tokens <= min_tokens_) continue;
        const std::uint64_t begin = at - stops_.length(match->stop);
        progress = {include_stop_ ? at : begin, FoundStop{static_cast<std::uint32_t>(match->stop), begin}};
    }
    return progress;
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
