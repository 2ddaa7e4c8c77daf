// What writers may send of a case's row.
#pragma once

#include <random>

#include "case_generator.h"
#include "lean_fixture.h"

namespace croupier::sampler::test {

// Nothing, a few blocks or all; sums as exact as doubles, or nearly as wrong as they may be. Of a case with
// log-probs less: they are to agree with those of the fast path's own sum, which is off by 3e-6 itself.
SentParts random_parts(const RandomCase& of, std::mt19937_64& generator);

}  // namespace croupier::sampler::test
