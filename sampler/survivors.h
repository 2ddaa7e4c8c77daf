// Steps 12 to 14 and 17 of docs/semantics.md: which tokens survive the filters, and which of them is drawn.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "sampler/blocks.h"
#include "sampler/vocabulary_order.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// (r + 1/2) / 2^32: exact in double, never 0 and never 1.
constexpr double uniform_of(std::uint32_t random) {
    return (static_cast<double>(random) + 0.5) * 0x1p-32;
}

// min_p (0: off), then top_k (0 or less: off), in one scan: how many of the workspace's candidates, in no
// particular order, survive both. Reads the workspace's adjusted logits and their block maxima. Empty if
// the order holds an id outside the vocabulary.
std::optional<std::uint32_t> keep_min_p_and_top_k(double min_p, std::int32_t top_k, const Weigher& weigh,
                                                  const VocabularyOrder& order, Workspace& workspace);

// Survivors as classes of equal logits in canonical order. The mass before a class's member j (from 0) is
// the mass before the class + j * weight, and that after it the mass before it + size * weight.
struct Classes {
    std::uint32_t count = 0;
    double mass = 0.0;
};

// Sorts the first `candidates` candidates and groups them.
Classes make_classes(std::uint32_t candidates, const Weigher& weigh, Workspace& workspace);

// Keeps a token iff the mass before it is < top_p of all.
Classes keep_top_p(const Classes& classes, double top_p, Workspace& workspace);

// Inverse CDF over the classes: the first member whose mass reaches past the uniform's share of all.
const Candidate& draw_survivor(const Classes& classes, std::uint32_t random, const Workspace& workspace);

}  // namespace croupier::sampler
