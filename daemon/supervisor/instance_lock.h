// One daemon an instance: the lock that says so, and the wait for what a dead daemon left running.
#pragma once

#include <string>

#include "daemon/control/lock_file.h"

namespace croupier::daemon {

shm::Result<LockFile> lock_instance(const std::string& run_dir, const std::string& instance);
// Samplers die with their supervisor, but not in the same instant; until they are gone they may still
// commit. Fails when one does not go, and when the daemon itself lives.
shm::Result<bool> await_predecessor(const std::string& shm_directory, const std::string& instance);

}  // namespace croupier::daemon
