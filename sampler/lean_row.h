// A partial row: its blocks' largest entries, some blocks, and sums.
#pragma once

#include "sampler/blocked_row.h"
#include "sampler/row_view.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// Of a view that is consistent.
inline bool is_lean(const RowView& view) {
    return !view.slices.empty() && view.slices.front().lean != nullptr;
}

// lay_in_blocks() for a lean view. The workspace then knows what the row weighs, as far as the writers say.
BlockedRow lay_lean(const RowView& view, Workspace& workspace) noexcept;

}  // namespace croupier::sampler
