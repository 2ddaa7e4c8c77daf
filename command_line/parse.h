// Reads a program's command line, alike in every program.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>

namespace croupier::command_line {

// Reads the command line and runs the callbacks of the commands in it. Returns the exit status where the
// program has nothing more to do: it printed help or its version, or explained on standard error, in one
// line, what is wrong. Help is also printed for `help`, `help COMMAND` and where a command is missing.
std::optional<int> parse(CLI::App& app, int argc, char** argv);

}  // namespace croupier::command_line
