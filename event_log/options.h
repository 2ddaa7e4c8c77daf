// How a program without a configuration file is told what it logs.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "event_log/event_log.h"

namespace croupier::event_log {

// --log-level and --log-format; `when` stands before their descriptions.
void add_options(CLI::App& app, Settings& settings, const std::string& when = "");

}  // namespace croupier::event_log
