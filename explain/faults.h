// A decision's error in a sentence: its name, what was wrong in this request, and what would be right.
#pragma once

#include <string>

#include "explain/case.h"

namespace croupier::explain {

std::string describe(proto::DecisionError error, const Case& of);

}  // namespace croupier::explain
