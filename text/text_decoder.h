// Tokens to text, one after the other. What has been decoded never changes: a character appears once it is
// whole.
//
// The text is that of Hugging Face's decode() of all tokens. Four differences are meant:
// - Text before an unfinished character is not kept back with it, as DecodeStream does; nor is a token
//   "\uFFFD".
// - In a run of byte-fallback tokens, Hugging Face replaces every byte if the run is not UTF-8 as a whole.
//   Here its characters stay that are finished before the first wrong byte: a stream cannot take them back
//   (DecodeStream then fails). From that byte to the end of the run every byte is one U+FFFD, as there.
// - Of a run that begins more than 1024 tokens before the prompt's end only the rest is looked at: a wrong
//   byte before that replaces nothing.
// - Added tokens are decoded from their content, never from a normalized form of it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "text/token_table.h"
#include "text/utf8.h"

namespace croupier::text {

// The tokens of a prompt at which TextDecoder::begin() looks: a text begins in the same way after these
// alone.
std::vector<std::int32_t> looked_at(std::span<const std::int32_t> prompt);

// What decoding the next token depends on, beside the token.
struct DecoderState {
    PartialCharacter partial;
    bool is_first = true;       // no token is in the text yet
    bool is_broken = false;     // in a run of bytes that is not UTF-8
    std::uint8_t to_strip = 0;  // characters that the text's beginning may lose
    bool operator==(const DecoderState&) const = default;
};

class TextDecoder {
  public:
    // The table must outlive it. Throws TextError if the table's tokens have no text.
    TextDecoder(const TokenTable& table, bool skip_special);

    // The text begins after a prompt, with the character that the prompt leaves unfinished. Only the first
    // token of prompt and output loses its space. Of a long prompt only the end is decoded.
    DecoderState begin(std::span<const std::int32_t> prompt) const;
    // Appends what the token adds to the text. Ids without a token add nothing, so rows may be longer than
    // the vocabulary.
    void decode(DecoderState& state, std::int32_t token, std::string& text) const;
    // The text ends: what is left of an unfinished character becomes U+FFFD.
    void finish(DecoderState& state, std::string& text) const;

  private:
    std::size_t behind_character(std::span<const std::int32_t> prompt, std::size_t at) const;
    void decode_fallback(DecoderState& state, const TokenTable::Token& token, std::string& text) const;
    bool settles(std::int32_t token) const;
    void strip(DecoderState& state, std::string& text, std::size_t from) const;

    const TokenTable* table_;
    Joining joining_;
    bool skip_special_;
};

}  // namespace croupier::text
