// Removes what a dead daemon left in shared memory; never anything that a live process holds.
#pragma once

#include <string>
#include <vector>

#include "shm/error.h"

namespace croupier::tools {

struct Kept {
    std::string path;
    std::string reason;
};

struct Cleaned {
    std::vector<std::string> removed;
    std::vector<Kept> kept;
};

// The sorted names of the instances that have files in `directory`, alive or dead.
std::vector<std::string> instances_in(const std::string& directory);

shm::Result<Cleaned> clean_up(const std::string& directory, const std::string& instance);

}  // namespace croupier::tools
