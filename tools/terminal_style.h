// How a person's terminal wants its text: colours, bars and width.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace croupier::tools {

struct TerminalStyle {
    bool colour = false;
    bool blocks = false;  // bars of block characters, else of '#'
    std::size_t width = 80;
};
// No colour where it is no terminal, or NO_COLOR is set.
TerminalStyle style_of_stdout();

// `code`: of ANSI's colours, "1;32".
std::string painted(const std::string& text, const char* code, const TerminalStyle& style);
// Long texts go on under their own column.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width);

}  // namespace croupier::tools
