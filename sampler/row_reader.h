// Brings a column's logits, wherever the ranks wrote them, into one float array in vocabulary order.
#pragma once

#include <span>

#include "sampler/row_view.h"

namespace croupier::sampler {

enum class RowFault { none, nan, positive_infinity };

// Whether the view's slices follow one another over the ids 0 .. vocab - 1 and its column exists.
bool view_is_consistent(const RowView& view) noexcept;

// Fills `row` (at least vocab entries) and the rest of it with -inf. The view must be consistent. Every
// conversion is exact. Only real entries are judged, not padding; a NaN is reported before a +inf.
RowFault read_row(const RowView& view, std::span<float> row) noexcept;

}  // namespace croupier::sampler
