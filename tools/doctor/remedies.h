// What to do about permissions and folders. No remedy gives a user more than Croupier needs: none names a
// group that opens other things, or another owner for a folder that a daemon may be using.
#pragma once

#include <string>

#include "tools/doctor/examined.h"

namespace croupier::tools::doctor {

// "usermod -aG engines vllm"; empty where membership of the group would open more than sessions.
std::string how_to_join(gid_t group, const Account& user, const Examined& examined);

// What gives an engine of `user` a daemon that it may use, in place of one that does not admit it.
std::string how_to_be_served(const Account& user);

// Making the folder that the configuration names in `key`, for a daemon of `user`.
std::string how_to_make(const std::string& path, const std::string& key, const Account& user,
                        const char* mode);

// For a folder or file in the daemon's way that is there already.
std::string how_to_clear(const std::string& path, const std::string& key);

}  // namespace croupier::tools::doctor
