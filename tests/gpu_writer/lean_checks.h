// What a lean step lays, held against the naive formulation of it.
#pragma once

#include <string>

#include "tests/gpu_writer/lean_side.h"

namespace croupier::testing {

std::string words_of(const LeanCase& of);
void check_lay(LeanSide& side, const LeanCase& of);

}  // namespace croupier::testing
