// The texts of a model's tokens, from the tokenizer.json of Hugging Face's tokenizers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace croupier::explain {

class TokenTexts {
  public:
    // No token has a text.
    TokenTexts() = default;
    // Throws RequestError, which names the file and the place in it.
    static TokenTexts load(const std::string& path);
    // Of a file that was read; what is thrown names the place alone.
    static TokenTexts parse(std::string_view text, const std::string& path);

    // The token's bytes: perhaps part of a character only. Nothing: it has none.
    std::optional<std::string_view> bytes(std::int32_t token) const;
    // As shown_text() shows it, in quotes; empty: the token has none.
    std::string shown(std::int32_t token) const;
    // Several tokens as one text, one without a text by its id; from the last ones only where there are more.
    std::string shown(std::span<const std::int32_t> tokens, std::size_t most) const;

    bool empty() const { return texts_.empty(); }
    // Throws RequestError where a token has an id that a row of so many logits has not.
    void check_fits(std::uint32_t vocab) const;

  private:
    TokenTexts(std::string path, std::vector<std::optional<std::string>> texts)
        : path_(std::move(path)), texts_(std::move(texts)) {}

    std::string path_;
    std::vector<std::optional<std::string>> texts_;  // [id]
};

}  // namespace croupier::explain
