#include "explain/token_texts.h"

#include <utility>

#include "explain/fields.h"
#include "text/shown_text.h"
#include "text/text_error.h"
#include "text/tokenizer_file.h"

namespace croupier::explain {

TokenTexts TokenTexts::load(const std::string& path) {
    try {
        return parse(text::read_tokenizer_file(path), path);
    } catch (const std::runtime_error& error) {
        throw RequestError("tokenizer '" + path + "': " + error.what());
    }
}

TokenTexts TokenTexts::parse(std::string_view text, const std::string& path) {
    try {
        return {path, text::TokenTable::parse(text)};
    } catch (const text::TextError& error) {
        throw RequestError(error.what());
    }
}

std::optional<std::string_view> TokenTexts::bytes(std::int32_t token) const {
    const auto found = table_.find(token);
    if (!found) return std::nullopt;
    return found->bytes;
}

std::string TokenTexts::shown(std::int32_t token) const {
    const auto text = bytes(token);
    return text ? "\"" + text::shown_text(*text) + "\"" : "";
}

std::string TokenTexts::shown(std::span<const std::int32_t> tokens, std::size_t most) const {
    const bool is_cut = tokens.size() > most;
    if (is_cut) tokens = tokens.last(most);
    std::string result = is_cut ? "\u2026" : "";
    std::string run;
    for (const std::int32_t token : tokens) {
        if (const auto text = bytes(token)) {
            run += *text;
            continue;
        }
        result += text::shown_text(run) + "[" + std::to_string(token) + "]";
        run.clear();
    }
    return result + text::shown_text(run);
}

void TokenTexts::check_fits(std::uint32_t vocab) const {
    if (table_.size() <= vocab) return;
    const auto last = static_cast<std::int32_t>(table_.size() - 1);
    throw RequestError("tokenizer '" + path_ + "': the token " + shown(last) + " has the id " +
                       std::to_string(last) + ", and the vocabulary has " + std::to_string(vocab) +
                       " ids: does the tokenizer belong to another model?");
}

}  // namespace croupier::explain
