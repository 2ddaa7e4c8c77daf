// Commands that are programs of their own: `croupier sim` is croupier-sim, in the same folder as croupier.
#pragma once

namespace croupier::tools {

// For error messages when one of these programs is missing.
inline constexpr const char* kHowToGetPrograms =
    "install the Debian package croupier-bench, or run ./dev build";

// Replaces this process with croupier-<argv[1]> and the arguments after that name. Returns only if exec
// fails: prints why and returns the exit code.
int run_program_beside(char** argv);

}  // namespace croupier::tools
