// An instance's snapshot for a person to read.
#pragma once

#include <string>

#include "shm/snapshot.h"

namespace croupier::tools {

// `stopped`: a signal has stopped the daemon.
std::string to_table(const shm::Snapshot& snapshot, bool stopped);

}  // namespace croupier::tools
