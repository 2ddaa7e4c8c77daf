// Checks that an option's value is a number within a range.
#pragma once

#include <CLI/CLI.hpp>

namespace croupier::command_line {

// Unlike CLI::Range, it refuses nan.
CLI::Validator number_between(double least, double most);

}  // namespace croupier::command_line
