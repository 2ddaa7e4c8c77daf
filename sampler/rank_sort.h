// Canonical order for few candidates: without a branch on their values, which no processor could predict.
#pragma once

#include <cstdint>
#include <span>

#include "sampler/workspace.h"

namespace croupier::sampler {

constexpr std::uint32_t kMostRanked = 192;

// A value that at least the k best reach, of k or more, and seldom many others.
double floor_for_best(std::span<const Candidate> candidates, std::uint32_t k) noexcept;

// At most kMostRanked; `room` is for as many.
void rank_sort(std::span<Candidate> candidates, std::span<Candidate> room) noexcept;

}  // namespace croupier::sampler
