// The order of all ties and all truncated draws: adjusted logit descending, then token id ascending.
#pragma once

#include <cstdint>
#include <span>

#include "sampler/workspace.h"

namespace croupier::sampler {

// An object, not a function: a sort inlines it.
constexpr auto canonically_before = [](const Candidate& a, const Candidate& b) {
    return a.value > b.value || (a.value == b.value && a.token < b.token);
};

// Sort the workspace's first `count` candidates.
void sort_canonically(Workspace& workspace, std::uint32_t count);
// The same of the first `best` of them; those behind stand in any order.
void sort_best(Workspace& workspace, std::uint32_t count, std::uint32_t best);

}  // namespace croupier::sampler
