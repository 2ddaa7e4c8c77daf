// Parses the command line of every program.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>

namespace croupier::command_line {

// The exit status of every program for a command line that it cannot take.
inline constexpr int kWrongCommandLine = 2;

// Parses the command line and runs the callbacks of its commands. Returns the exit status if the program is
// done: it printed help, its version, or a one-line error on standard error. `help`, `help COMMAND` and a
// missing command also print help.
std::optional<int> parse(CLI::App& app, int argc, char** argv);

}  // namespace croupier::command_line
