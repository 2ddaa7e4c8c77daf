// A decision's account for a person at a terminal.
#pragma once

#include <string>

#include "explain/explained.h"

namespace croupier::tools {

struct TerminalStyle {
    bool colour = false;
    bool blocks = false;  // bars of block characters, else of '#'
    std::size_t width = 80;
};
TerminalStyle style_of_stdout();

std::string to_terminal(const explain::Explained& explained, const TerminalStyle& style);

}  // namespace croupier::tools
