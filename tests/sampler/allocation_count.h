// How often the program has allocated: this binary's operator new counts.
#pragma once

#include <cstdint>

namespace croupier::sampler::test {

std::uint64_t allocations_so_far();

}  // namespace croupier::sampler::test
