// Shows the steps of a decision on a terminal.
#pragma once

#include <string>

#include "explain/explained.h"
#include "tools/terminal_style.h"

namespace croupier::tools {

std::string to_terminal(const explain::Explained& explained, const TerminalStyle& style);

}  // namespace croupier::tools
