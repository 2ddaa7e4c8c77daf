#include "text/utf8.h"

#include <catch2/catch.hpp>
#include <random>

namespace croupier::text {
namespace {

std::string utf8_of(std::uint32_t code) {
    const auto tail = [code](std::uint32_t shift) {
        return static_cast<char>(0x80U | (code >> shift & 0x3FU));
    };
    if (code < 0x80) return {static_cast<char>(code)};
    if (code < 0x800) return {static_cast<char>(0xC0U | code >> 6U), tail(0)};
    if (code < 0x10000) return {static_cast<char>(0xE0U | code >> 12U), tail(6), tail(0)};
    return {static_cast<char>(0xF0U | code >> 18U), tail(12), tail(6), tail(0)};
}

std::string replaced(std::string_view bytes) {
    PartialCharacter partial;
    std::string text;
    append_characters(partial, bytes, text);
    if (partial.count > 0) text += "~";
    return text;
}

}  // namespace

TEST_CASE("every character is UTF-8, and no surrogate and nothing above U+10FFFF is") {
    for (std::uint32_t code = 0; code < 0x120000; ++code) {
        const bool is_character = code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
        if (is_utf8(utf8_of(code)) != is_character) FAIL("U+" << std::hex << code);
    }
    CHECK_FALSE(is_utf8("\xC0\x80"));
    CHECK_FALSE(is_utf8("\xE0\x9F\xBF"));
    CHECK_FALSE(is_utf8("\xF0\x8F\xBF\xBF"));
    CHECK_FALSE(is_utf8("a\xE2\x82"));
}

TEST_CASE("each longest beginning of a character becomes one U+FFFD") {
    // The examples of the Unicode Standard, section 3.9.
    CHECK(replaced("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41") ==
          "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA");
    CHECK(replaced("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41") ==
          "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA");
    CHECK(replaced("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42") == "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA\uFFFD\uFFFDB");
    CHECK(replaced("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41") == "\uFFFD\uFFFD\uFFFD\uFFFDA");
    CHECK(replaced("\xF0\x9F\x8E") == "~");
}

TEST_CASE("bytes that come one by one give the same text as bytes that come together") {
    std::mt19937_64 random(8);
    for (int i = 0; i < 20'000; ++i) {
        std::string bytes;
        while (bytes.size() < 8)
            bytes +=
                "\xE2\x82\xAC\xF0\x9F\x8E\x89\xED\xA0"
                "a"[random() % 10];
        PartialCharacter partial;
        std::string text;
        for (const char byte : bytes) append_characters(partial, {&byte, 1}, text);
        if (partial.count > 0) text += "~";
        if (text != replaced(bytes)) FAIL(i);
    }
}

}  // namespace croupier::text
