// A rank's writer in a process of its own, whose logits lie in a GPU's memory.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/schedule_slot.h"

namespace croupier::testing {

// What the hidden test of gpu_rank.cpp is told in its environment.
constexpr const char* kSegmentVariable = "CROUPIER_TEST_SEGMENT";
constexpr const char* kRankVariable = "CROUPIER_TEST_RANK";

// SmallEngine's logits of a column, of `ids` ids from `first_id` on.
std::vector<std::uint16_t> bf16_row(const proto::ScheduleColumn& column, std::uint32_t vocab,
                                    std::uint32_t first_id, std::uint32_t ids);

}  // namespace croupier::testing
