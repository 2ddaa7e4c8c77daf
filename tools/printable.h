// Text of another process for a terminal: what is no printable ASCII, a terminal's control sequences above
// all, is written out as \x1b.
#pragma once

#include <string>
#include <string_view>

namespace croupier::tools {

std::string printable(std::string_view text);

}  // namespace croupier::tools
