// A lean case as the kernels' launches take it, for a GPU and for a CPU that stands in for one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu_writer/lean_kernels.h"
#include "gpu_writer/lean_layout.h"
#include "tests/gpu_writer/lean_side.h"

namespace croupier::testing {

// Where the case's bytes lie, its masks, and the ids that it names.
inline gpu_writer::LeanRows rows_at(const std::byte* logits, const std::uint32_t* masks,
                                    const std::uint32_t* names, const LeanCase& of,
                                    const gpu_writer::LeanShape& shape) {
    const proto::Dtype dtype = of.geometry.dtype;
    return {logits + std::size_t{of.skipped} * proto::element_bytes(dtype),
            of.rows.stride,
            dtype,
            shape.slice.lead,
            shape.slice.entries,
            shape.slice.blocks,
            shape.first_block,
            {masks, of.mask_words()},
            {names}};
}

inline std::vector<gpu_writer::WholeColumn> whole_columns(const LeanCase& of) {
    std::vector<gpu_writer::WholeColumn> whole;
    for (std::uint32_t column = 0; column < of.columns(); ++column) {
        const gpu_writer::LeanWant& want = of.wants[column];
        if (want.flags.has(request::Want::whole)) whole.push_back({column, want.place});
    }
    return whole;
}

inline std::vector<gpu_writer::SpreadColumn> spread_columns(const LeanCase& of) {
    std::vector<gpu_writer::SpreadColumn> spreads;
    for (std::uint32_t column = 0; column < of.columns(); ++column) {
        const gpu_writer::LeanWant& want = of.wants[column];
        if (gpu_writer::sums_spread(want)) spreads.push_back({column, want.mask_row, want.scale});
    }
    return spreads;
}

}  // namespace croupier::testing
