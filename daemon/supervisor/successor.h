// The croupierd that is started next: whether it can go on with the sessions of this one.
#pragma once

#include <string>

#include "config/config.h"

namespace croupier::daemon {

// What of this build a client that lives has mapped or sends: "segment 14, messages 1".
std::string layout_versions();

// Where this program's file lies; asked before an upgrade puts another file there.
std::string own_program();

enum class Handover {
    possible,
    refused,       // the next daemon could not start: this one serves on
    sessions_end,  // it would not find the sessions, or could not read them
};

struct Predecessor {
    std::string program;          // own_program()
    std::string named;            // its configuration, as the command line has it; empty: none
    std::string metrics_address;  // where it listens; empty: nowhere
};

// Asks the file that lies there now, because only it knows its own keys: `croupierd --check-start` prints
// what would prevent its start as this user and exits with 2, or else prints its configuration. The log says
// why a handover is not possible.
Handover ask_successor(const Predecessor& from, const config::Config& config);

}  // namespace croupier::daemon
