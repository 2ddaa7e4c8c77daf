// The croupierd that is started next: whether it can go on with the sessions of this one.
#pragma once

#include <string>

#include "shm/error.h"

namespace croupier::daemon {

// What of this build a client that lives has mapped or sends: "segment 9, bell 1, messages 1".
std::string layout_versions();

// Where this program's file lies; asked before an upgrade puts another file there.
std::string own_program();

// The same of the file that lies there now, by running it.
shm::Result<std::string> layout_versions_of(const std::string& program);

}  // namespace croupier::daemon
