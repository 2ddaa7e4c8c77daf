// Makes untrusted bytes, such as a token's, safe to display. Characters that are invisible or change the text
// around them, and bytes that are not UTF-8, are shown by their number.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace croupier::text {

// A space becomes "␣", a line feed "\n", an invalid byte "\xe2", a direction mark "\u{202e}", a backslash
// "\\". The result has no effect on a terminal; HTML must still be escaped.
std::string shown_text(std::string_view bytes);

// The width of the text on a terminal, in columns.
std::size_t columns_of(std::string_view utf8);
// Shortened to this many columns, with "…" at the end if anything is cut.
std::string cut_to(std::string_view utf8, std::size_t columns);
// For a message: 'shown', and shortened to 40 columns.
std::string in_quotes(std::string_view bytes);

}  // namespace croupier::text
