#include "text/token_table.h"

#include <array>
#include <cstring>
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
// A million tokens of ten bytes with eight decoders take a quarter; all of it, some seconds.
constexpr std::uint64_t kMostWork = std::uint64_t{1} << 32U;
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

struct TokenTable::Head {
    static constexpr std::uint32_t kVersion = 1;

    std::uint32_t version = kVersion;
    std::uint32_t tokens = 0;
    std::uint32_t bytes = 0;
    std::uint8_t has_first = 0;
    Joining joining = Joining::kPlain;
    std::uint8_t stripped_count = 0;
    std::uint8_t stripped_bytes = 0;
    std::array<char, 8> stripped{};

    std::size_t entry_lists() const { return 1 + std::size_t{has_first}; }
    std::size_t image_bytes() const { return sizeof(Head) + entry_lists() * tokens * sizeof(Entry) + bytes; }
};

// Collects the tokens of a file.
class TableBuilder {
  public:
    explicit TableBuilder(DecoderChain chain) : chain_(std::move(chain)) {}

    void fill(const TokenizerFile& file);
    TokenTable finish() &&;

  private:
    using Entry = TokenTable::Entry;
    void place(std::uint32_t id, std::string_view piece, std::uint8_t flags);
    Entry store(const DecoderChain::Decoded& decoded, std::uint8_t flags);

    DecoderChain chain_;
    std::uint64_t work_ = 0;
    std::string bytes_;
    std::vector<Entry> entries_;
    std::vector<Entry> first_entries_;
};

TokenTable TokenTable::parse(std::string_view file) {
    if (!is_json(file)) return parse_tiktoken(file);
    const TokenizerFile read = read_tokenizer_json(file);
    TableBuilder builder(read.decoder ? DecoderChain(*read.decoder) : DecoderChain());
    builder.fill(read);
    return std::move(builder).finish();
}

TokenTable TokenTable::parse_tiktoken(std::string_view file, const std::vector<AddedToken>& special) {
    TableBuilder builder(DecoderChain::of_bytes());
    builder.fill({read_tiktoken(file), false, special, std::nullopt});
    return std::move(builder).finish();
}

TokenTable TokenTable::view(std::span<const std::byte> image) {
    TokenTable table;
    table.lay_out(image);
    return table;
}

void TokenTable::lay_out(std::span<const std::byte> image) {
    static_assert(sizeof(Head) % sizeof(Entry) == 0);
    Head head;
    if (image.size() < sizeof(head))
        throw TextError("a table of tokens has " + std::to_string(image.size()) + " bytes");
    std::memcpy(&head, image.data(), sizeof(head));
    const bool is_sound = head.version == Head::kVersion && head.has_first <= 1 &&
                          head.joining <= Joining::kByteFallback &&
                          head.stripped_bytes <= head.stripped.size();
    if (!is_sound || head.image_bytes() != image.size())
        throw TextError("a table of tokens of " + std::to_string(image.size()) +
                        " bytes has a head that is none of version " + std::to_string(Head::kVersion));
    joining_ = head.joining;
    stripped_count_ = head.stripped_count;
    stripped_.assign(head.stripped.data(), head.stripped_bytes);
    image_ = image;
    size_ = head.tokens;
    entries_ = reinterpret_cast<const std::uint64_t*>(image.data() + sizeof(head));
    first_entries_ = entries_ + (head.entry_lists() - 1) * size_;
    bytes_ = {reinterpret_cast<const char*>(entries_ + head.entry_lists() * size_), head.bytes};
}

void TableBuilder::fill(const TokenizerFile& file) {
    Ids ids(file);
    for (const Piece& each : file.vocabulary) place(each.id, each.piece, TokenTable::kPresent);
    for (const AddedToken& each : file.added) {
        if (each.content.empty()) continue;  // as Hugging Face does
        ids.add(each);
        place(each.id, each.content,
              each.is_special ? TokenTable::kPresent | TokenTable::kSpecial : TokenTable::kPresent);
    }
}

void TableBuilder::place(std::uint32_t id, std::string_view piece, std::uint8_t flags) {
    if (id >= entries_.size()) entries_.resize(id + std::size_t{1});
    entries_[id] = store(chain_.decode(piece, false, work_), flags);
    if (!chain_.treats_first()) return;
    first_entries_.resize(entries_.size());
    first_entries_[id] = store(chain_.decode(piece, true, work_), flags);
}

TableBuilder::Entry TableBuilder::store(const DecoderChain::Decoded& decoded, std::uint8_t flags) {
    if (work_ > kMostWork)
        throw TextError(
            "the decoders take too long for so many tokens of such length; a model's file has a "
            "few decoders, with patterns of one character");
    if (bytes_.size() + decoded.bytes.size() > kMostBytes)
        throw TextError("the tokens have more than " + std::to_string(kMostBytes) + " bytes together");
    const auto begin = static_cast<std::uint32_t>(bytes_.size());
    bytes_ += decoded.bytes;
    if (decoded.is_byte) flags |= TokenTable::kByte;
    if (is_utf8(decoded.bytes)) flags |= TokenTable::kUtf8;
    return {begin, static_cast<std::uint16_t>(decoded.bytes.size()), flags, 0};
}

TokenTable TableBuilder::finish() && {
    TokenTable::Head head;
    head.tokens = static_cast<std::uint32_t>(entries_.size());
    head.bytes = static_cast<std::uint32_t>(bytes_.size());
    head.has_first = first_entries_.empty() ? 0 : 1;
    head.joining = chain_.joining();
    head.stripped_count = chain_.stripped_count();
    head.stripped_bytes =
        static_cast<std::uint8_t>(chain_.stripped().copy(head.stripped.data(), head.stripped.size()));
    first_entries_.resize(head.has_first != 0 ? entries_.size() : 0);
    TokenTable table;
    table.fault_ = chain_.fault();
    table.own_.reserve(head.image_bytes());
    const auto append = [&table](const auto& list) {
        const auto bytes = std::as_bytes(std::span(list));
        table.own_.insert(table.own_.end(), bytes.begin(), bytes.end());
    };
    append(std::span(&head, 1));
    append(entries_);
    append(first_entries_);
    append(bytes_);
    table.lay_out(table.own_);
    return table;
}

}  // namespace croupier::text
