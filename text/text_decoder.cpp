#include "text/text_decoder.h"

#include <algorithm>

#include "text/text_error.h"

namespace croupier::text {
namespace {

// At the beginning and at the end of a prompt. Further away no text hangs together, and a prompt may be made
// of tokens that say so.
constexpr std::size_t kMostLookedAt = 1024;
// The last token before those at the end is looked at too: they may follow one that settles.
constexpr std::size_t kLast = kMostLookedAt + 1;

void append_replacements(std::string& text, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) text += kReplacement;
}

bool is_continuation(char byte) {
    return (static_cast<std::uint8_t>(byte) & 0xC0U) == 0x80U;
}

// Bytes of a fallback are replaced one by one.
void end_run(DecoderState& state, std::string& text) {
    append_replacements(text, state.partial.count);
    state.partial.count = 0;
    state.is_broken = false;
}

}  // namespace

std::vector<std::int32_t> looked_at(std::span<const std::int32_t> prompt) {
    if (prompt.size() <= kMostLookedAt + kLast) return {prompt.begin(), prompt.end()};
    const auto first = prompt.first(kMostLookedAt);
    const auto last = prompt.last(kLast);
    std::vector<std::int32_t> tokens(first.begin(), first.end());
    tokens.insert(tokens.end(), last.begin(), last.end());
    return tokens;
}

TextDecoder::TextDecoder(const TokenTable& table, bool skip_special)
    : table_(&table), joining_(table.joining()), skip_special_(skip_special) {
    if (!table.fault().empty()) throw TextError(table.fault());
}

DecoderState TextDecoder::begin(std::span<const std::int32_t> prompt) const {
    DecoderState state;
    state.to_strip = table_->stripped_count();
    std::string unused;
    const auto look_at = [&](std::int32_t token) {
        unused.clear();
        decode(state, token, unused);
    };
    std::size_t next = 0;
    while (next < std::min(prompt.size(), kMostLookedAt) && (state.is_first || state.to_strip > 0))
        look_at(prompt[next++]);
    state.is_first = state.is_first && next == prompt.size();
    std::size_t end = prompt.size();
    const std::size_t least = std::max(next, end - std::min(end, kMostLookedAt));
    while (end > least && !settles(prompt[end - 1])) --end;
    if (end > next) {
        next = end - 1;
        if (!settles(prompt[next])) next = behind_character(prompt, next);
        state.partial.count = 0;
        state.is_broken = false;
    }
    for (; next < prompt.size(); ++next) look_at(prompt[next]);
    return state;
}

// Whether nothing before the token matters for what follows it, once the text has begun.
bool TextDecoder::settles(std::int32_t id) const {
    const auto token = table_->find(id);
    if (!token || (token->is_special && skip_special_)) return false;
    if (joining_ == Joining::kByteFallback) return !token->is_byte;
    return token->is_utf8 && !token->bytes.empty();
}

// Behind the bytes of a run that may end a character of which the beginning is not looked at: three at most.
std::size_t TextDecoder::behind_character(std::span<const std::int32_t> prompt, std::size_t at) const {
    for (std::size_t bytes = 0; at < prompt.size(); ++at) {
        const auto token = table_->find(prompt[at]);
        if (!token || (token->is_special && skip_special_)) continue;
        const bool continues = token->is_byte && is_continuation(token->bytes.front());
        if (!continues || ++bytes > 3) break;
    }
    return at;
}

void TextDecoder::decode(DecoderState& state, std::int32_t id, std::string& text) const {
    const auto token = table_->find(id, state.is_first);
    if (!token || (token->is_special && skip_special_)) return;
    state.is_first = false;
    const std::size_t from = text.size();
    if (joining_ == Joining::kByteFallback) {
        decode_fallback(state, *token, text);
    } else if (token->is_utf8 && state.partial.count == 0) {
        text += token->bytes;
    } else {
        append_characters(state.partial, token->bytes, text);
    }
    if (state.to_strip > 0) strip(state, text, from);
}

void TextDecoder::decode_fallback(DecoderState& state, const TokenTable::Token& token,
                                  std::string& text) const {
    PartialCharacter& partial = state.partial;
    if (!token.is_byte) {
        end_run(state, text);
        text += token.bytes;
        return;
    }
    const char byte = token.bytes.front();
    const auto next = state.is_broken ? PartialCharacter::Next::kInvalid : partial.next(byte);
    if (next == PartialCharacter::Next::kPartial) {
        partial.bytes[partial.count++] = byte;
    } else if (next == PartialCharacter::Next::kCharacter) {
        text += partial.view();
        text += byte;
        partial.count = 0;
    } else {
        append_replacements(text, partial.count + std::size_t{1});
        partial.count = 0;
        state.is_broken = true;
    }
}

void TextDecoder::strip(DecoderState& state, std::string& text, std::size_t from) const {
    const std::string& stripped = table_->stripped();
    std::size_t end = from;
    while (state.to_strip > 0 && end < text.size()) {
        if (text.compare(end, stripped.size(), stripped) != 0) {
            state.to_strip = 0;
            break;
        }
        end += stripped.size();
        --state.to_strip;
    }
    text.erase(from, end - from);
}

void TextDecoder::finish(DecoderState& state, std::string& text) const {
    const std::size_t from = text.size();
    if (joining_ == Joining::kByteFallback) {
        end_run(state, text);
    } else if (state.partial.count > 0) {
        append_replacements(text, 1);
        state.partial.count = 0;
    }
    if (state.to_strip > 0) strip(state, text, from);
}

}  // namespace croupier::text
