// How wide a terminal is, and text that fits it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace croupier::command_line {

inline constexpr std::size_t kUsualWidth = 80;

// kUsualWidth where `descriptor` is no terminal, or one that does not know its size.
std::size_t terminal_width(int descriptor);

// Breaks the text at spaces; every line after the first begins with `indent` spaces.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width);

}  // namespace croupier::command_line
