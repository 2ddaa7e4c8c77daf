// A rank's writer in a process of its own, whose logits lie in a GPU's memory.
#pragma once

namespace croupier::testing {

// What the hidden test of gpu_rank.cpp is told in its environment.
constexpr const char* kSegmentVariable = "CROUPIER_TEST_SEGMENT";
constexpr const char* kRankVariable = "CROUPIER_TEST_RANK";

}  // namespace croupier::testing
