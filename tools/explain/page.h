// A decision's account as one HTML page that refers to nothing outside itself.
#pragma once

#include <string>

#include "tools/explain/explained.h"

namespace croupier::tools {

std::string to_page(const Explained& explained);

}  // namespace croupier::tools
