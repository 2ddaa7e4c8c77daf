// How to format text for the terminal: colours, bars and width.
#pragma once

#include <cstddef>
#include <string>

#include "command_line/text_width.h"

namespace croupier::tools {

struct TerminalStyle {
    bool colour = false;
    bool blocks = false;  // draw bars with block characters instead of '#'
    std::size_t width = command_line::kUsualWidth;
};
// No colour if stdout is not a terminal or NO_COLOR is set.
TerminalStyle style_of_stdout();

// `code`: an ANSI colour code such as "1;32".
std::string painted(const std::string& text, const char* code, const TerminalStyle& style);

}  // namespace croupier::tools
