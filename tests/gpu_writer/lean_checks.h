// What a lean step lays, held against the naive formulation of it.
#pragma once

#include <string>

#include "tests/gpu_writer/lean_side.h"

namespace croupier::testing {

std::string words_of(const LeanCase& of);
void check_lay(LeanSide& side, const LeanCase& of);
// That of each column the same blocks were sent.
void check_same_blocks(const LeanCase& of, const Laid& one, const Laid& other);

}  // namespace croupier::testing
