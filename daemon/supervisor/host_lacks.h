// What a sound configuration asks for and this host does not have.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "config/load.h"

namespace croupier::daemon {

struct Lack {
    std::string key;
    std::string message;
    bool prevents_start = false;
};

std::vector<Lack> lacks_of_host(const config::Config& config);

// Why a daemon could not start with what was loaded: its mistakes, or what the host lacks.
std::vector<config::Problem> problems_of_start(const config::LoadResult& loaded);

// Those that prevent no start, as events.
void log_lacks(const std::vector<Lack>& lacks);

}  // namespace croupier::daemon
