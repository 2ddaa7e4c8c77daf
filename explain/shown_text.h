// Bytes of a token, or of any other stranger, as a person may read them: what would be invisible, change the
// text around it, or is no UTF-8, is shown by its number.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace croupier::explain {

// A space is "␣", a line's end "\n", a byte that is no UTF-8 "\xe2", a mark of direction "\u{202e}", a
// backslash "\\". Nothing in it acts on a terminal or on a page, though a page must still escape its markup.
std::string shown_text(std::string_view bytes);

// How many columns of a terminal the text takes.
std::size_t columns_of(std::string_view utf8);
// Cut to so many columns, with "…" for what is left out.
std::string cut_to(std::string_view utf8, std::size_t columns);

}  // namespace croupier::explain
