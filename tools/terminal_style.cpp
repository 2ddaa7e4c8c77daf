#include "tools/terminal_style.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <cstdlib>

namespace croupier::tools {

TerminalStyle style_of_stdout() {
    TerminalStyle style;
    style.blocks = ::isatty(STDOUT_FILENO) != 0;
    const char* refused = std::getenv("NO_COLOR");
    style.colour = style.blocks && (refused == nullptr || *refused == '\0');
    style.width = command_line::terminal_width(STDOUT_FILENO);
    return style;
}

std::string painted(const std::string& text, const char* code, const TerminalStyle& style) {
    return style.colour ? fmt::format("\033[{}m{}\033[0m", code, text) : text;
}

}  // namespace croupier::tools
