// The text of one sequence: what may be shown of it, and whether a stop string or a JSON value has ended it.
//
// The rule. Stop strings are searched in the decoded text, wherever tokens begin and end. The first that is
// complete ends the sequence, with the token that completes it; of several that are complete at the same
// byte, the first of the list counts. One that is complete within the first `min_tokens` tokens is not
// obeyed, though one that begins there and ends later is. The text ends before the stop string, or after it
// with `include_stop`.
//
// This is the rule of vLLM 0.33, and differs in time only. vLLM sees text when no unfinished character
// follows it, so a stop string before half a character ends the sequence one token later there, and may count
// for that token and not for one of the first `min_tokens`. vLLM 0.26 and SGLang take the first of the list
// that is anywhere in the last tokens' text, so a stop string that is complete later may win there.
//
// With `stop_at_json` a finished JSON value ends the sequence likewise (text/json_automaton.h), with the
// token that completes it, and the text ends behind the value. Of both in one token, that counts which is
// complete first; at the same byte, the stop string. After a value that is not obeyed the next one counts.
//
// The text is released up to the longest end that may still become a stop string. With `include_stop` nothing
// is held back for stop strings, as a stop string is then a part of the text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "text/json_automaton.h"
#include "text/stop_automaton.h"
#include "text/text_decoder.h"

namespace croupier::text {

struct TextRules {
    std::vector<std::string> stops;
    std::uint64_t min_tokens = 0;
    bool include_stop = false;
    bool skip_special = true;
    bool stop_at_json = false;
};

struct FoundStop {
    enum class Kind : std::uint8_t { string, json };
    std::uint32_t index;  // in TextRules::stops; 0 of a JSON value
    std::uint64_t begin;  // the byte of the text where it begins
    Kind kind = Kind::string;
    bool operator==(const FoundStop&) const = default;
};

struct TextProgress {
    std::uint64_t released = 0;  // bytes of the text that stay, whatever follows
    std::optional<FoundStop> stop;
    bool operator==(const TextProgress&) const = default;
};

class SequenceText {
  public:
    // The table must outlive it. Throws TextError for stop strings that cannot be, and for a table without
    // text.
    SequenceText(const TokenTable& table, const TextRules& rules, std::span<const std::int32_t> prompt = {});

    // Decodes the next token of the output and appends its text, released or not, to `text`. If tokens follow
    // a stop nevertheless, it is passed over: what one token answers depends on the tokens alone.
    TextProgress add(std::int32_t token, std::string& text);
    // The sequence ends for another reason than its text: all is released, and the rest of an unfinished
    // character becomes U+FFFD. No stop is searched in that.
    TextProgress finish(std::string& text) const;
    // Goes back to the first `tokens` tokens of the output, which there must be: throws std::out_of_range.
    // Returns the bytes that the text has then. Other tokens that follow may make a stop string of what had
    // been released of these: whoever shows text shows that of tokens that are not taken back.
    std::uint64_t truncate(std::size_t tokens, std::span<const std::int32_t> output);

    std::size_t tokens() const { return state_.tokens; }
    std::uint64_t bytes() const { return state_.bytes; }
    // Of a text that goes on.
    std::uint64_t released() const { return state_.bytes - (include_stop_ ? 0 : stops_.held(state_.node)); }
    // Of the heap.
    std::size_t allocated() const { return states_.capacity() * sizeof(State) + stops_.allocated(); }

  private:
    struct State {
        DecoderState decoder;
        StopAutomaton::Node node = StopAutomaton::kRoot;
        std::uint64_t tokens = 0;
        std::uint64_t bytes = 0;
        JsonAutomaton json;
    };
    // A state every 64 tokens is about a byte a token, and going back decodes 63 tokens at most.
    static constexpr std::size_t kTokensPerState = 64;

    TextProgress search(std::string_view added);
    std::optional<StopAutomaton::Match> first_stop(std::string_view added);
    std::optional<JsonAutomaton::Value> first_value(std::string_view added);

    TextDecoder decoder_;
    StopAutomaton stops_;
    std::uint64_t min_tokens_;
    bool include_stop_;
    bool stop_at_json_;
    State state_;
    std::vector<State> states_;  // [i] after i * kTokensPerState tokens
};

}  // namespace croupier::text
