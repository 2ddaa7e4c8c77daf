// Shows a decision as one self-contained HTML page.
#pragma once

#include <string>

#include "explain/explained.h"

namespace croupier::explain {

std::string to_page(const Explained& explained);

}  // namespace croupier::explain
