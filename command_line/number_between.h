// An option's number within its range.
#pragma once

#include <CLI/CLI.hpp>

namespace croupier::command_line {

// CLI::Range lets through what compares with nothing: nan.
CLI::Validator number_between(double least, double most);

}  // namespace croupier::command_line
