// The width of a terminal, and wrapping of text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace croupier::command_line {

inline constexpr std::size_t kUsualWidth = 80;

// Returns kUsualWidth if `descriptor` is not a terminal or its size is unknown.
std::size_t terminal_width(int descriptor);

// Wraps the text at spaces. Every line after the first is indented by `indent` spaces.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width);

}  // namespace croupier::command_line
