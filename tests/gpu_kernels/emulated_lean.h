// A lean step laid by the GPU's kernels on this CPU: what they lay, not how fast, nor what memory does
// between blocks.
#pragma once

#include <memory>

#include "tests/gpu_writer/lean_side.h"

namespace croupier::testing {

std::unique_ptr<LeanSide> make_emulated_lean();
// The same where the maxima of blocks are there before, as the head's product leaves them.
std::unique_ptr<LeanSide> make_emulated_lean_of_maxima();
// The same step as a CUDA graph's replay finds and sends it.
std::unique_ptr<LeanSide> make_emulated_replay();

}  // namespace croupier::testing
