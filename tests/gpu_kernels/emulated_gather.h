// A lean step whose rows the engine's arrays tell of, laid by the GPU's kernels on this CPU.
#pragma once

#include <memory>
#include <random>

#include "tests/gpu_writer/lean_side.h"

namespace croupier::testing {

struct GatherCase {
    bool windows = true;
    // One column in so many has no row; 0: each has one.
    std::uint32_t one_in_without = 0;
    // Rows are copied before they are asked for.
    bool copies = false;
};

class EmulatedGather : public LeanSide {
  public:
    // Of the case that was laid last: the columns without a row.
    virtual const std::vector<std::uint32_t>& without() const = 0;
};

// The rows stand in any order, among others. Throws where words, or what rows were computed from, are not
// what they should be, or come too late.
std::unique_ptr<EmulatedGather> make_emulated_gather(const GatherCase& of, std::mt19937_64& random);

}  // namespace croupier::testing
