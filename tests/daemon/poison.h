// Columns and sessions that end or stall whoever takes them: what the daemon croupierd_poisoned does to
// itself, and nothing else in it differs from croupierd.
#pragma once

#include <cstdint>

namespace croupier::testing {

// A sequence with such a seed is poison.
enum PoisonSeed : std::uint64_t {
    kPoisonFirst = 0xD015'0000,
    kHangs = kPoisonFirst,
    kKillsItself,
    kExits,
    kBadAlloc,
    kAborts,
    // The column is decided; then comes the end, or the halt, before the commit.
    kAbortsBeforeCommit,
    kStopsBeforeCommit,
    // While its logits are awaited.
    kAbortsInPreparation,
    kAbortsInRehearsal,
    kPoisonEnd
};

// The memory ends while a sampler attaches a session of this name.
constexpr const char* kUnattachable = "unattachable";

// In the environment: the milliseconds that a sampler takes to start.
constexpr const char* kSlowStart = "CROUPIER_TEST_SLOW_START_MS";

}  // namespace croupier::testing
