// The croupierd that is started next: whether it can go on with the sessions of this one.
#pragma once

#include <string>

#include "config/config.h"
#include "shm/error.h"

namespace croupier::daemon {

// What of this build a client that lives has mapped or sends: "segment 14, messages 1".
std::string layout_versions();

// Which key of the next daemon's configuration says that it would look for the sessions elsewhere, or could
// not give them to who has them; empty: none.
std::string moved_key(const config::Config& now, const config::Config& next);

// Where this program's file lies; asked before an upgrade puts another file there.
std::string own_program();

// The same of the file that lies there now, by running it.
shm::Result<std::string> layout_versions_of(const std::string& program);

}  // namespace croupier::daemon
