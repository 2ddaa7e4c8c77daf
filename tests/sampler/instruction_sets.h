// The instruction sets that the vector code was compiled for and this machine can run.
#pragma once

#include <cstdint>
#include <vector>

namespace croupier::sampler::test {

// Highway's bits.
std::vector<std::int64_t> instruction_sets();
const char* name_of_instruction_set(std::int64_t target);

// The process decides with this one while the object lives, then with the machine's best again.
class InstructionSet {
  public:
    explicit InstructionSet(std::int64_t target);
    ~InstructionSet();
    InstructionSet(const InstructionSet&) = delete;
    InstructionSet& operator=(const InstructionSet&) = delete;
};

}  // namespace croupier::sampler::test
