// The bytes of each token, read once from a tokenizer's file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/decoder_chain.h"
#include "text/tokenizer_json.h"

namespace croupier::text {

class TokenTable {
  public:
    // Without any token.
    TokenTable() = default;
    // The contents of a tokenizer.json or of a tiktoken file. Throws TextError, beginning with the place in
    // it.
    static TokenTable parse(std::string_view file);
    // The contents of a tiktoken file, and the special tokens that it lacks.
    static TokenTable parse_tiktoken(std::string_view file, const std::vector<AddedToken>& special = {});

    // One more than the largest id. Rows of logits are often longer.
    std::size_t size() const { return entries_.size(); }
    bool empty() const { return entries_.empty(); }
    // Why tokens have bytes, but no text: a decoder that is not supported. Empty if they have one.
    const std::string& fault() const { return chain_.fault(); }
    const DecoderChain& chain() const { return chain_; }

    struct Token {
        std::string_view bytes;
        bool is_special = false;
        bool is_byte = false;  // of a byte fallback
        bool is_utf8 = false;  // the bytes are whole characters
    };
    // Nothing if the id has no token. `is_first`: of the tokens that are in the text.
    std::optional<Token> find(std::int32_t id, bool is_first = false) const {
        const auto index = static_cast<std::size_t>(id);
        if (id < 0 || index >= entries_.size()) return std::nullopt;
        const Entry& entry = is_first && !first_entries_.empty() ? first_entries_[index] : entries_[index];
        if ((entry.flags & kPresent) == 0) return std::nullopt;
        return Token{{bytes_.data() + entry.begin, entry.length},
                     (entry.flags & kSpecial) != 0,
                     (entry.flags & kByte) != 0,
                     (entry.flags & kUtf8) != 0};
    }

  private:
    enum Flag : std::uint8_t { kPresent = 1, kSpecial = 2, kByte = 4, kUtf8 = 8 };
    struct Entry {
        std::uint32_t begin = 0;
        std::uint16_t length = 0;
        std::uint8_t flags = 0;
    };

    explicit TokenTable(DecoderChain chain) : chain_(std::move(chain)) {}
    void fill(const TokenizerFile& file);
    void place(std::uint32_t id, std::string_view piece, std::uint8_t flags);
    Entry store(const DecoderChain::Decoded& decoded, std::uint8_t flags);

    DecoderChain chain_;
    std::string bytes_;
    std::vector<Entry> entries_;        // [id]
    std::vector<Entry> first_entries_;  // [id], if the first token of a text is decoded in another way
};

}  // namespace croupier::text
