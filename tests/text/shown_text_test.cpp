#include "text/shown_text.h"

#include <catch2/catch.hpp>
#include <string>

namespace croupier::text {

TEST_CASE("printable characters are unchanged") {
    for (const char* text : {"the", "été", "漢字", "Ελλάδα", "שלום", "🎲", "<b>&amp;", "'\"`$"})
        CHECK(shown_text(text) == text);
}

TEST_CASE("whitespace is made visible") {
    CHECK(shown_text(" the") == "␣the");
    CHECK(shown_text("\n\r\t") == "\\n\\r\\t");
    CHECK(shown_text("\u00a0") == "\\u{a0}");
    CHECK(shown_text("\u3000\u2003") == "\\u{3000}\\u{2003}");
    // The substitutes themselves are escaped.
    CHECK(shown_text("␣") == "\\u{2423}");
    CHECK(shown_text("\\n") == "\\\\n");
}

TEST_CASE("control characters, direction marks and invisible characters are shown by number") {
    CHECK(shown_text("\033[31m") == "\\u{1b}[31m");
    CHECK(shown_text(std::string("a\0b", 3)) == "a\\u{0}b");
    CHECK(shown_text("\u0085\u009b") == "\\u{85}\\u{9b}");
    CHECK(shown_text("\u202egnp.exe\u2066\u200f\u061c") == "\\u{202e}gnp.exe\\u{2066}\\u{200f}\\u{61c}");
    CHECK(shown_text("\u200b\u200d\ufeff\u00ad\u2028") == "\\u{200b}\\u{200d}\\u{feff}\\u{ad}\\u{2028}");
    CHECK(shown_text("\U000e0041\ufe0f\ue000\ufffd") == "\\u{e0041}\\u{fe0f}\\u{e000}\ufffd");
    // After a letter a combining mark is kept; at the start it would attach to the text before.
    CHECK(shown_text("e\u0301") == "e\u0301");
    CHECK(shown_text("\u0301e") == "\\u{301}e");
}

TEST_CASE("invalid UTF-8 is shown byte by byte") {
    CHECK(shown_text("\xe2\x96") == "\\xe2\\x96");
    CHECK(shown_text("a\x80z") == "a\\x80z");
    // Overlong, a surrogate, beyond Unicode, truncated.
    CHECK(shown_text("\xc0\xaf") == "\\xc0\\xaf");
    CHECK(shown_text("\xe0\x80\xaf") == "\\xe0\\x80\\xaf");
    CHECK(shown_text("\xed\xa0\x80") == "\\xed\\xa0\\x80");
    CHECK(shown_text("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");
    CHECK(shown_text("\xf0\x9f\x8e") == "\\xf0\\x9f\\x8e");
    CHECK(shown_text("\xff\xfe") == "\\xff\\xfe");
    for (int first = 0; first < 256; ++first) {
        for (int second = 0; second < 256; ++second) {
            const char bytes[] = {static_cast<char>(first), static_cast<char>(second)};
            const std::string shown = shown_text({bytes, sizeof(bytes)});
            for (const char c : shown) CHECK((static_cast<unsigned char>(c) >= 0x20 && c != 0x7f));
        }
    }
}

TEST_CASE("the width of a text is that on a terminal, and long texts are cut") {
    CHECK(columns_of("the") == 3);
    CHECK(columns_of("漢字") == 4);
    CHECK(columns_of("e\u0301") == 1);
    CHECK(cut_to("the", 3) == "the");
    CHECK(cut_to("their", 3) == "th…");
    CHECK(cut_to("漢字漢字", 5) == "漢字…");
    CHECK(cut_to("漢字漢字", 4) == "漢…");
    CHECK(cut_to("", 0).empty());
}

}  // namespace croupier::text
