// How a person's terminal wants its text: colours, bars and width.
#pragma once

#include <cstddef>
#include <string>

#include "command_line/text_width.h"

namespace croupier::tools {

struct TerminalStyle {
    bool colour = false;
    bool blocks = false;  // bars of block characters, else of '#'
    std::size_t width = command_line::kUsualWidth;
};
// No colour where it is no terminal, or NO_COLOR is set.
TerminalStyle style_of_stdout();

// `code`: of ANSI's colours, "1;32".
std::string painted(const std::string& text, const char* code, const TerminalStyle& style);

}  // namespace croupier::tools
