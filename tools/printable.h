// Makes text of another process safe for a terminal: bytes that are not printable ASCII become \x1b and the
// like, so that control sequences have no effect.
#pragma once

#include <string>
#include <string_view>

namespace croupier::tools {

std::string printable(std::string_view text);

}  // namespace croupier::tools
