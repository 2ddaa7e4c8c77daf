// Reads a file.
#pragma once

#include <optional>
#include <string>

namespace croupier::testing {

// The whole contents; nothing if the file cannot be read.
std::optional<std::string> text_of(const std::string& path);

}  // namespace croupier::testing
