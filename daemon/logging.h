// The log: to stderr, where systemd's journal takes it, as text or as one JSON object a line.
#pragma once

#include "config/config.h"

namespace croupier::daemon {

void set_up_log(const config::Log& log);
// SIGHUP: the level and format may change while the daemon runs.
void configure_log(const config::Log& log);

}  // namespace croupier::daemon
