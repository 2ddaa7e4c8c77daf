// A partial row: its blocks' largest entries, some blocks, and sums.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/lean_part.h"
#include "sampler/blocked_row.h"
#include "sampler/request.h"
#include "sampler/row_view.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// Of a view that is consistent.
inline bool is_lean(const RowView& view) {
    return !view.slices.empty() && view.slices.front().lean != nullptr;
}

// What the bytes of a rank of so many blocks hold of a column, as its head says. They may be another
// process's: `head` is the caller's copy. Blocks that were asked for are the caller's to add.
LeanColumn lean_column_of(const proto::LeanHead& head, const std::byte* part, const proto::LeanLayout& layout,
                          std::uint32_t blocks, std::uint32_t column) noexcept;

// Notes the logits that the writers sent of the ids that the request names. Writers read the request on their
// own, perhaps while another one stood there: of a different list nothing is noted. `row` is the lean view's.
// `looks_up`: single ones of the ids that are allowed alone are looked up too.
void take_named(const RowView& view, const Request& request, const BlockedRow& row, bool looks_up) noexcept;

// lay_in_blocks() for a lean view. The workspace then knows what the row weighs, as far as the writers say.
BlockedRow lay_lean(const RowView& view, Workspace& workspace) noexcept;

}  // namespace croupier::sampler
