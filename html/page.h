// Self-contained HTML pages.
#pragma once

#include <string>
#include <string_view>

namespace croupier::html {

std::string escaped(std::string_view text);

// `body` is markup; `title` is plain text.
std::string page(std::string_view title, std::string_view body);

// Throws std::runtime_error if the file cannot be written.
void write_page(const std::string& path, std::string_view page);

}  // namespace croupier::html
