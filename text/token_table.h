// The bytes of each token, read once from a tokenizer's file.
#pragma once

#include <bit>
#include <cstddef>
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
    TokenTable(TokenTable&&) = default;
    TokenTable& operator=(TokenTable&&) = default;
    // The contents of a tokenizer.json or of a tiktoken file. Throws TextError, beginning with the place in
    // it.
    static TokenTable parse(std::string_view file);
    // The contents of a tiktoken file, and the special tokens that it lacks.
    static TokenTable parse_tiktoken(std::string_view file, const std::vector<AddedToken>& special = {});
    // The image() of another process's table, read in place. The memory must begin at a multiple of eight and
    // outlive the table. Its writer may be hostile: whatever it writes later, only the text may be wrong.
    // Throws TextError if it is no table.
    static TokenTable view(std::span<const std::byte> image);
    // All of the table in one piece, for another process of the same version. Of a table with a text.
    std::span<const std::byte> image() const { return image_; }

    // One more than the largest id. Rows of logits are often longer.
    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    // Why tokens have bytes, but no text: a decoder that is not supported. Empty if they have one.
    const std::string& fault() const { return fault_; }
    Joining joining() const { return joining_; }
    // The text begins without up to this many of this character.
    std::uint8_t stripped_count() const { return stripped_count_; }
    const std::string& stripped() const { return stripped_; }

    struct Token {
        std::string_view bytes;
        bool is_special = false;
        bool is_byte = false;  // of a byte fallback
        bool is_utf8 = false;  // the bytes are whole characters
    };
    // Nothing if the id has no token. `is_first`: of the tokens that are in the text.
    std::optional<Token> find(std::int32_t id, bool is_first = false) const {
        const auto index = static_cast<std::size_t>(id);
        if (id < 0 || index >= size_) return std::nullopt;
        const std::uint64_t* const entries = is_first ? first_entries_ : entries_;
        // Read once: what is checked is what is used.
        const auto entry = std::bit_cast<Entry>(__atomic_load_n(entries + index, __ATOMIC_RELAXED));
        const bool is_byte = (entry.flags & kByte) != 0;
        const bool is_sound =
            entry.length <= kMostTokenBytes && std::uint64_t{entry.begin} + entry.length <= bytes_.size();
        if ((entry.flags & kPresent) == 0 || !is_sound || (is_byte && entry.length != 1)) return std::nullopt;
        return Token{bytes_.substr(entry.begin, entry.length), (entry.flags & kSpecial) != 0, is_byte,
                     (entry.flags & kUtf8) != 0};
    }

  private:
    friend class TableBuilder;
    enum Flag : std::uint8_t { kPresent = 1, kSpecial = 2, kByte = 4, kUtf8 = 8 };
    struct Entry {
        std::uint32_t begin = 0;
        std::uint16_t length = 0;
        std::uint8_t flags = 0;
        std::uint8_t reserved = 0;
    };
    static_assert(sizeof(Entry) == sizeof(std::uint64_t));
    // An image is a head, the entries by id, those of first tokens if they differ, and the tokens' bytes.
    struct Head;

    void lay_out(std::span<const std::byte> image);

    std::string fault_;
    Joining joining_ = Joining::kPlain;
    std::uint8_t stripped_count_ = 0;
    std::string stripped_;
    std::vector<std::byte> own_;  // the image, if it is no other process's
    std::span<const std::byte> image_;
    std::size_t size_ = 0;
    const std::uint64_t* entries_ = nullptr;        // [id]
    const std::uint64_t* first_entries_ = nullptr;  // of the first token of a text
    std::string_view bytes_;
};

}  // namespace croupier::text
