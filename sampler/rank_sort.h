// Canonical order for few candidates: without a branch on their values, which no processor could predict.
#pragma once

#include <cstdint>
#include <span>

#include "sampler/workspace.h"

namespace croupier::sampler {

constexpr std::uint32_t kMostRanked = 192;

// At most kMostRanked; `room` is for as many.
void rank_sort(std::span<Candidate> candidates, std::span<Candidate> room) noexcept;

}  // namespace croupier::sampler
