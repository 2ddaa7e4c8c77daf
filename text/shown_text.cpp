#include "text/shown_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>

#include "text/utf8.h"

namespace croupier::text {
namespace {

std::string hex_of(std::uint32_t number) {
    std::array<char, 8> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, 16).ptr;
    return {digits.data(), end};
}

struct Character {
    std::uint32_t code;
    std::size_t bytes;
};

// Decodes the first character. Returns nothing if the bytes begin with none.
std::optional<Character> first_of(std::string_view text) {
    PartialCharacter partial;
    std::uint32_t code = 0;
    for (const char byte : text) {
        const auto next = partial.next(byte);
        if (next == PartialCharacter::Next::kInvalid) return std::nullopt;
        const auto value = static_cast<std::uint8_t>(byte);
        if (partial.count > 0) {
            code = code << 6U | (value & 0x3FU);
        } else {
            code = value < 0x80 ? value : value & (value >= 0xF0 ? 0x07U : value >= 0xE0 ? 0x0FU : 0x1FU);
        }
        if (next == PartialCharacter::Next::kCharacter)
            return Character{code, partial.count + std::size_t{1}};
        partial.bytes[partial.count++] = byte;
    }
    return std::nullopt;
}

struct Range {
    std::uint32_t first;
    std::uint32_t last;
};

template <std::size_t kSize>
bool is_in(const std::array<Range, kSize>& ranges, std::uint32_t code) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [code](const Range& each) { return code >= each.first && code <= each.last; });
}

// Controls, direction marks, characters without width or as wide as a space, variation selectors, tags,
// private and unassigned characters, and the sign used here for a space.
constexpr std::array<Range, 27> kUnreadable = {
    {{0x00, 0x1F},       {0x7F, 0xA0},       {0xAD, 0xAD},     {0x034F, 0x034F},   {0x061C, 0x061C},
     {0x115F, 0x1160},   {0x1680, 0x1680},   {0x17B4, 0x17B5}, {0x180B, 0x180F},   {0x2000, 0x200F},
     {0x2028, 0x202F},   {0x205F, 0x206F},   {0x2423, 0x2423}, {0x2800, 0x2800},   {0x3000, 0x3000},
     {0x3164, 0x3164},   {0xE000, 0xF8FF},   {0xFDD0, 0xFDEF}, {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},
     {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFFB},   {0xFFFE, 0xFFFF}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A},
     {0xE0000, 0xE0FFF}, {0xF0000, 0x10FFFF}}};

// Combining marks attach to the previous character, which may be outside the token.
constexpr std::array<Range, 6> kCombining = {{{0x0300, 0x036F},
                                              {0x0483, 0x0489},
                                              {0x1AB0, 0x1AFF},
                                              {0x1DC0, 0x1DFF},
                                              {0x20D0, 0x20FF},
                                              {0xFE20, 0xFE2F}}};

constexpr std::array<Range, 11> kWide = {{{0x1100, 0x115F},
                                          {0x231A, 0x231B},
                                          {0x2E80, 0x303E},
                                          {0x3041, 0xA4CF},
                                          {0xA960, 0xA97F},
                                          {0xAC00, 0xD7A3},
                                          {0xF900, 0xFAFF},
                                          {0xFE30, 0xFE6F},
                                          {0xFF00, 0xFF60},
                                          {0x1F300, 0x1FAFF},
                                          {0x20000, 0x3FFFD}}};

std::string shown(std::uint32_t code, std::string_view bytes, bool is_first) {
    switch (code) {
        case ' ':
            return "\u2423";
        case '\n':
            return "\\n";
        case '\r':
            return "\\r";
        case '\t':
            return "\\t";
        case '\\':
            return "\\\\";
        default:
            break;
    }
    if (is_in(kUnreadable, code) || (is_first && is_in(kCombining, code))) return "\\u{" + hex_of(code) + "}";
    return std::string(bytes);
}

std::size_t width_of(std::uint32_t code) {
    if (is_in(kCombining, code)) return 0;
    return is_in(kWide, code) ? 2 : 1;
}

}  // namespace

std::string shown_text(std::string_view bytes) {
    std::string result;
    for (std::size_t at = 0; at < bytes.size();) {
        const auto character = first_of(bytes.substr(at));
        if (!character) {
            const std::string byte = hex_of(static_cast<std::uint8_t>(bytes[at]));
            result += "\\x" + std::string(2 - byte.size(), '0') + byte;
            ++at;
            continue;
        }
        result += shown(character->code, bytes.substr(at, character->bytes), at == 0);
        at += character->bytes;
    }
    return result;
}

std::size_t columns_of(std::string_view utf8) {
    std::size_t columns = 0;
    while (!utf8.empty()) {
        const Character character = first_of(utf8).value_or(Character{'?', 1});
        columns += width_of(character.code);
        utf8.remove_prefix(character.bytes);
    }
    return columns;
}

std::string cut_to(std::string_view utf8, std::size_t columns) {
    if (columns_of(utf8) <= columns) return std::string(utf8);
    std::size_t taken = 0;
    std::size_t end = 0;
    while (end < utf8.size()) {
        const Character character = first_of(utf8.substr(end)).value_or(Character{'?', 1});
        if (taken + width_of(character.code) + 1 > columns) break;
        taken += width_of(character.code);
        end += character.bytes;
    }
    return std::string(utf8.substr(0, end)) + "\u2026";
}

std::string in_quotes(std::string_view bytes) {
    constexpr std::size_t kColumns = 40;
    // No more than this is needed: a character has at most four bytes, and few have no width.
    return "'" + cut_to(shown_text(bytes.substr(0, 8 * kColumns)), kColumns) + "'";
}

}  // namespace croupier::text
