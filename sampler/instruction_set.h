// Which of the instruction sets that the vector code was compiled for this processor runs.
#pragma once

#include <cstddef>
#include <string>

namespace croupier::sampler {

struct InstructionSet {
    std::string name;  // Highway's: "AVX3_ZEN4"
    std::size_t vector_bytes = 0;
};
InstructionSet instruction_set();

}  // namespace croupier::sampler
