// Generates docs/parameters.md, the table of the sampling parameters.
#pragma once

#include <string>

namespace croupier::tools {

std::string parameters_page();

}  // namespace croupier::tools
