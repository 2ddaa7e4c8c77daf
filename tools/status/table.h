// An instance's snapshot for a person to read.
#pragma once

#include <string>

#include "shm/snapshot.h"

namespace croupier::tools {

std::string to_table(const shm::Snapshot& snapshot);

}  // namespace croupier::tools
