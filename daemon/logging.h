// The section `log` of the configuration, in force in the daemon and, over a signal, in its samplers.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "config/load.h"
#include "event_log/event_log.h"

namespace croupier::daemon {

event_log::Settings settings_of(const config::Log& log);

// What the daemon starts with: a line, and one for each key that differs from its default.
void log_configuration(const config::LoadResult& loaded);

// Of a configuration that is read while the daemon runs: a line for each.
void log_problems(const std::string& file, const std::vector<config::Problem>& problems);

// After SIGHUP a running sampler logs as its supervisor does. False: it could not be told, try again.
bool tell_log_settings(pid_t sampler, event_log::Settings settings);
// The sampler's side.
void follow_log_settings();

}  // namespace croupier::daemon
