// `croupier relay`: writes a remote scheduler's records into the session's ring on this host.
#pragma once

#include <CLI/CLI.hpp>

namespace croupier::tools {

void add_relay_command(CLI::App& app, int& status);

}  // namespace croupier::tools
