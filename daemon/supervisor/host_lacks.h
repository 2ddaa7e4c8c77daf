// What a sound configuration asks for and this host does not have.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace croupier::daemon {

struct Lack {
    std::string key;
    std::string message;
    bool prevents_start = false;
};

std::vector<Lack> lacks_of_host(const config::Config& config);

// Those that prevent no start, as events.
void log_lacks(const std::vector<Lack>& lacks);

}  // namespace croupier::daemon
