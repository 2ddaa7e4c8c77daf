// A view for a program: one JSON object on one line.
#pragma once

#include <string>

#include "tools/top/account.h"

namespace croupier::tools {

std::string to_json(const View& view);

}  // namespace croupier::tools
