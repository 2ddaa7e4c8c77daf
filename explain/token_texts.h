// The texts of a model's tokens, for display: from a tokenizer.json of Hugging Face, or a tiktoken file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "text/token_table.h"

namespace croupier::explain {

class TokenTexts {
  public:
    // Creates an object in which no token has a text.
    TokenTexts() = default;
    // Throws RequestError with the file and the place in it.
    static TokenTexts load(const std::string& path);
    // From the contents of a file; errors name only the place.
    static TokenTexts parse(std::string_view text, const std::string& path);

    // The token's bytes, which may be a part of a character; nothing if it has no text.
    std::optional<std::string_view> bytes(std::int32_t token) const;
    // The quoted result of shown_text(); empty if the token has no text.
    std::string shown(std::int32_t token) const;
    // Several tokens as one text; tokens without a text are shown by id. Only the last ones if there are
    // many.
    std::string shown(std::span<const std::int32_t> tokens, std::size_t most) const;

    bool empty() const { return table_.empty(); }
    const text::TokenTable& table() const { return table_; }
    // Throws RequestError if a token's id is not below `vocab`.
    void check_fits(std::uint32_t vocab) const;

  private:
    TokenTexts(std::string path, text::TokenTable table) : path_(std::move(path)), table_(std::move(table)) {}

    std::string path_;
    text::TokenTable table_;
};

}  // namespace croupier::explain
