// What SIGHUP may change in a running daemon.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace croupier::config {

// The keys that differ and take a restart.
std::vector<std::string> unreloadable_changes(const Config& running, const Config& wanted);

// The running configuration with the reloadable keys of the wanted one.
Config reloaded(const Config& running, const Config& wanted);

}  // namespace croupier::config
