#include "text/utf8.h"

namespace croupier::text {
namespace {

using Next = PartialCharacter::Next;

struct Range {
    std::uint8_t first;
    std::uint8_t last;
};

// Of the second byte. The narrower ranges exclude overlong forms, surrogates, and what lies above U+10FFFF.
Range second_byte(std::uint8_t lead) {
    switch (lead) {
        case 0xE0:
            return {0xA0, 0xBF};
        case 0xED:
            return {0x80, 0x9F};
        case 0xF0:
            return {0x90, 0xBF};
        case 0xF4:
            return {0x80, 0x8F};
        default:
            return {0x80, 0xBF};
    }
}

std::uint8_t size_of(std::uint8_t lead) {
    return lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
}

}  // namespace

Next PartialCharacter::next(char byte) const {
    const auto value = static_cast<std::uint8_t>(byte);
    if (count == 0) {
        if (value < 0x80) return Next::kCharacter;
        return value >= 0xC2 && value <= 0xF4 ? Next::kPartial : Next::kInvalid;
    }
    const auto lead = static_cast<std::uint8_t>(bytes[0]);
    const Range range = count == 1 ? second_byte(lead) : Range{0x80, 0xBF};
    if (value < range.first || value > range.last) return Next::kInvalid;
    return count + 1 == size_of(lead) ? Next::kCharacter : Next::kPartial;
}

bool is_utf8(std::string_view bytes) {
    PartialCharacter partial;
    for (const char byte : bytes) {
        switch (partial.next(byte)) {
            case Next::kCharacter:
                partial.count = 0;
                break;
            case Next::kPartial:
                partial.bytes[partial.count++] = byte;
                break;
            case Next::kInvalid:
                return false;
        }
    }
    return partial.count == 0;
}

void append_characters(PartialCharacter& partial, std::string_view bytes, std::string& to) {
    for (const char byte : bytes) {
        Next next = partial.next(byte);
        if (next == Next::kInvalid && partial.count > 0) {
            to += kReplacement;
            partial.count = 0;
            next = partial.next(byte);
        }
        if (next == Next::kPartial) {
            partial.bytes[partial.count++] = byte;
            continue;
        }
        if (next == Next::kInvalid) {
            to += kReplacement;
            continue;
        }
        to += partial.view();
        to += byte;
        partial.count = 0;
    }
}

}  // namespace croupier::text
