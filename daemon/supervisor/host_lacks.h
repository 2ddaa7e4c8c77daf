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
    bool prevents_this_user = false;  // another user's daemon may start
};

// Whose daemon it is that would start.
enum class Starter { any_user, this_user };

std::vector<Lack> lacks_of_host(const config::Config& config);

// Why a daemon could not start with what was loaded: its mistakes, or what the host lacks.
std::vector<config::Problem> problems_of_start(const config::LoadResult& loaded, Starter starter);

// Those that prevent no start, as events.
void log_lacks(const std::vector<Lack>& lacks);

}  // namespace croupier::daemon
