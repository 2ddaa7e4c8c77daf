// UTF-8 that comes byte by byte.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace croupier::text {

// What stands in the text for bytes that are no character: U+FFFD.
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// The bytes of a character whose last byte is missing: at most three.
struct PartialCharacter {
    std::array<char, 3> bytes{};
    std::uint8_t count = 0;

    enum class Next : std::uint8_t {
        kCharacter,  // they and the byte are a character
        kPartial,    // they and the byte begin one
        kInvalid     // no character begins with them and the byte
    };
    Next next(char byte) const;
    std::string_view view() const { return {bytes.data(), count}; }
    bool operator==(const PartialCharacter&) const = default;
};

// Whether the bytes are whole characters: no surrogate, overlong or truncated form.
bool is_utf8(std::string_view bytes);

// Appends the characters that `bytes` complete. Bytes that no character has become U+FFFD, one for each
// longest beginning of a character, as in Rust, Python and browsers. Keeps the beginning of a character in
// `partial`.
void append_characters(PartialCharacter& partial, std::string_view bytes, std::string& to);

}  // namespace croupier::text
