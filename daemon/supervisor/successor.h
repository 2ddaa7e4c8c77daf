// The croupierd that is started next: whether it can go on with the sessions of this one.
#pragma once

#include <string>
#include <vector>

#include "shm/error.h"

namespace croupier::daemon {

// What of this build a client that lives has mapped or sends: "segment 14, messages 1".
std::string layout_versions();

// Which key of the next daemon's printed configuration says that it would look for the sessions elsewhere, or
// could not give them to who has them; empty: none.
std::string moved_key(const std::string& now, const std::string& next);

// Where this program's file lies; asked before an upgrade puts another file there.
std::string own_program();

struct NextStart {
    std::vector<std::string> problems;  // a line each; empty: it starts
    std::string config;                 // with which it starts, as YAML
};

// Asks the file that lies there now, because only it knows its own keys: `croupierd --check-start` prints
// what would prevent its start as this user and exits with 2, or else prints its configuration.
NextStart next_start(const std::string& program, const std::string& named);

// A value of NextStart::config.
std::string setting_of(const std::string& config, const std::string& key);

// The same file's layout_versions().
shm::Result<std::string> layout_versions_of(const std::string& program);

}  // namespace croupier::daemon
