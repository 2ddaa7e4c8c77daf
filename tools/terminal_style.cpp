#include "tools/terminal_style.h"

#include <spdlog/fmt/fmt.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace croupier::tools {

TerminalStyle style_of_stdout() {
    TerminalStyle style;
    style.blocks = ::isatty(STDOUT_FILENO) != 0;
    const char* refused = std::getenv("NO_COLOR");
    style.colour = style.blocks && (refused == nullptr || *refused == '\0');
    winsize size{};
    if (style.blocks && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        style.width = size.ws_col;
    }
    return style;
}

std::string painted(const std::string& text, const char* code, const TerminalStyle& style) {
    return style.colour ? fmt::format("\033[{}m{}\033[0m", code, text) : text;
}

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
    const std::size_t room = std::max<std::size_t>(20, width > indent ? width - indent : 0);
    std::string result;
    while (text.size() > room) {
        const std::size_t space = text.rfind(' ', room);
        const std::size_t cut = space == std::string_view::npos || space == 0 ? room : space;
        result += std::string(text.substr(0, cut)) + "\n" + std::string(indent, ' ');
        text.remove_prefix(cut + (text[cut] == ' ' ? 1 : 0));
    }
    return result + std::string(text);
}

}  // namespace croupier::tools
