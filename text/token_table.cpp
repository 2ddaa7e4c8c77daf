#include "text/token_table.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "text/shown_text.h"
#include "text/text_error.h"
#include "text/tiktoken_file.h"
#include "text/utf8.h"

namespace croupier::text {
namespace {

// The vocabularies in use have some megabytes.
constexpr std::size_t kMostBytes = std::size_t{256} << 20U;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Which token has which id: no two tokens have one, and no token has two, except in a list.
class Ids {
  public:
    explicit Ids(const TokenizerFile& file) {
        by_piece_.reserve(file.vocabulary.size());
        for (const Piece& each : file.vocabulary) claim("model.vocab: ", each.piece, each.id, file.has_list);
    }

    // Many files list tokens of the vocabulary once more among the added ones.
    void add(const AddedToken& token) {
        const bool is_known = token.id < by_id_.size() && by_id_[token.id] == token.content;
        if (!is_known) claim("added_tokens: ", token.content, token.id, false);
    }

  private:
    void claim(const char* place, std::string_view piece, std::uint32_t id, bool may_repeat) {
        const auto [known, is_new] = by_piece_.emplace(piece, id);
        if (!is_new && !may_repeat) {
            throw TextError(place + in_quotes(piece) + " has the ids " + std::to_string(known->second) +
                            " and " + std::to_string(id) + "; it should have one");
        }
        if (id >= by_id_.size()) by_id_.resize(id + std::size_t{1});
        if (by_id_[id]) {
            throw TextError(place + in_quotes(*by_id_[id]) + " and " + in_quotes(piece) +
                            " both have the id " + std::to_string(id));
        }
        by_id_[id] = piece;
    }

    std::unordered_map<std::string_view, std::uint32_t> by_piece_;
    std::vector<std::optional<std::string_view>> by_id_;
};

bool is_json(std::string_view file) {
    if (file.starts_with(kByteOrderMark)) file.remove_prefix(kByteOrderMark.size());
    const std::size_t first = file.find_first_not_of(" \t\r\n");
    return first != std::string_view::npos && (file[first] == '{' || file[first] == '[');
}

}  // namespace

TokenTable TokenTable::parse(std::string_view file) {
    if (!is_json(file)) return parse_tiktoken(file);
    const TokenizerFile read = read_tokenizer_json(file);
    TokenTable table(read.decoder ? DecoderChain(*read.decoder) : DecoderChain());
    table.fill(read);
    return table;
}

TokenTable TokenTable::parse_tiktoken(std::string_view file, const std::vector<AddedToken>& special) {
    TokenTable table(DecoderChain::of_bytes());
    table.fill({read_tiktoken(file), false, special, std::nullopt});
    return table;
}

void TokenTable::fill(const TokenizerFile& file) {
    Ids ids(file);
    for (const Piece& each : file.vocabulary) place(each.id, each.piece, kPresent);
    for (const AddedToken& each : file.added) {
        if (each.content.empty()) continue;  // as Hugging Face does
        ids.add(each);
        place(each.id, each.content, each.is_special ? kPresent | kSpecial : kPresent);
    }
}

void TokenTable::place(std::uint32_t id, std::string_view piece, std::uint8_t flags) {
    if (id >= entries_.size()) entries_.resize(id + std::size_t{1});
    entries_[id] = store(chain_.decode(piece, false), flags);
    if (!chain_.treats_first()) return;
    first_entries_.resize(entries_.size());
    first_entries_[id] = store(chain_.decode(piece, true), flags);
}

TokenTable::Entry TokenTable::store(const DecoderChain::Decoded& decoded, std::uint8_t flags) {
    if (bytes_.size() + decoded.bytes.size() > kMostBytes)
        throw TextError("the tokens have more than " + std::to_string(kMostBytes) + " bytes together");
    const auto begin = static_cast<std::uint32_t>(bytes_.size());
    bytes_ += decoded.bytes;
    if (decoded.is_byte) flags |= kByte;
    if (is_utf8(decoded.bytes)) flags |= kUtf8;
    return {begin, static_cast<std::uint16_t>(decoded.bytes.size()), flags};
}

}  // namespace croupier::text
