// A decision's account as one HTML page that refers to nothing outside itself.
#pragma once

#include <string>

#include "explain/explained.h"

namespace croupier::explain {

std::string to_page(const Explained& explained);

}  // namespace croupier::explain
