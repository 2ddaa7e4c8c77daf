// Values that are each allowed but do not go together.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace croupier::config {

struct Conflict {
    std::vector<std::string> keys;  // the first is the one to change, most likely
    std::string message;
};

std::vector<Conflict> find_conflicts(const Config& config);

}  // namespace croupier::config
