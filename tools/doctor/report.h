// What the checks found, for a person and for a program.
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/finding.h"
#include "tools/terminal_style.h"

namespace croupier::tools::doctor {

// Of the JSON object. Keys, checks and facts are added without a change of it; none is taken away or gets
// another meaning.
constexpr int kSchemaVersion = 1;

const char* level_name(Level level);
Level worst(const std::vector<Finding>& findings);
// 0: fine; 1: works, but slower; 2: will not work.
int exit_status(Level worst);

std::string to_json(const std::vector<Finding>& findings, double seconds);
// The worst first.
std::string to_terminal(const std::vector<Finding>& findings, double seconds, const TerminalStyle& style);

}  // namespace croupier::tools::doctor
