// Commands that are programs of their own: `croupier sim` is croupier-sim, which lies beside croupier.
#pragma once

namespace croupier::tools {

// For the errors of commands that miss one of these programs.
inline constexpr const char* kWhoHasProgramsBeside =
    "Debian's package croupier-bench has it, and ./dev build builds it";

// Becomes croupier-<argv[1]>, which gets the arguments behind its name. Returns only when it cannot be run:
// says why, and gives the exit code.
int run_program_beside(char** argv);

}  // namespace croupier::tools
