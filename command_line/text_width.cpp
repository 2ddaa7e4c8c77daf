#include "command_line/text_width.h"

#include <sys/ioctl.h>

#include <algorithm>

namespace croupier::command_line {

std::size_t terminal_width(int descriptor) {
    winsize size{};
    return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualWidth;
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

}  // namespace croupier::command_line
