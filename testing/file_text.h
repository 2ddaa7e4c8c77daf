// What stands in a file.
#pragma once

#include <optional>
#include <string>

namespace croupier::testing {

// Whole, byte for byte; nothing where it cannot be read.
std::optional<std::string> text_of(const std::string& path);

}  // namespace croupier::testing
