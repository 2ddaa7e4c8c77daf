// Pages for a browser that refer to nothing outside themselves.
#pragma once

#include <string>
#include <string_view>

namespace croupier::html {

std::string escaped(std::string_view text);

// `body` is markup, `title` is not.
std::string page(std::string_view title, std::string_view body);

// Throws with what could not be written.
void write_page(const std::string& path, std::string_view page);

}  // namespace croupier::html
