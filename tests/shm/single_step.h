// Death at a chosen instruction: a real child is single-stepped through a call and killed on the way.
#pragma once

#include <functional>

namespace croupier::shm {

// Runs in the child. `marker` is called right before and right after the call under test.
using SteppedBody = std::function<void(const std::function<void()>& marker)>;

// Executes `limit` instructions of what lies between the markers, then kills the child. Returns how many
// were executed: fewer than `limit` when the call was over before.
long die_after(long limit, const SteppedBody& body);

// Kills a child at instruction 0, s, 2s ... of the call, with s such that it takes seconds, and calls
// `verify` after each death; the last child lives to the end of the call.
void die_everywhere(const SteppedBody& body, const std::function<void(long instructions)>& verify);

// False, with a warning that the test is skipped: sanitizers that run a thread of their own cannot be
// stepped.
bool can_single_step();

}  // namespace croupier::shm
