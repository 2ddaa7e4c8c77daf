// Describes a decision's error: its name, what is wrong in the request, and what is allowed.
#pragma once

#include <string>

#include "explain/case.h"

namespace croupier::explain {

std::string describe(proto::DecisionError error, const Case& of);

}  // namespace croupier::explain
