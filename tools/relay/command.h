// `croupier relay`: connects a scheduler on another host to its session on this one.
#pragma once

#include <CLI/CLI.hpp>

namespace croupier::tools {

void add_relay_command(CLI::App& app, int& status);

}  // namespace croupier::tools
