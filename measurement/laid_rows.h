// Rows in the layout in which the ranks of a session write them, with any dtype and number of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "measurement/bench_rows.h"
#include "sampler/row_view.h"

namespace croupier::measurement {

struct Ranks {
    std::string name = "1";
    std::uint32_t count = 1;
    bool whole_blocks = false;  // split at multiples of 64 ids, so that no block spans two ranks
};
// "4": equal shares, as engines split them; "4x64": split at multiples of 64 ids. Throws std::runtime_error.
Ranks ranks_of(const std::string& name);

// Throws std::runtime_error with the allowed names.
proto::Dtype dtype_of(const std::string& name);

class LaidRows {
  public:
    // `rows` must be ordered by id. For fp32, low bits are derived from row and id, so that values differ as
    // in a row that never was bf16. `in_step`: the rows are the columns of one step, so that the blocks of a
    // row are far apart in memory; otherwise each row is contiguous.
    LaidRows(const BenchRows& rows, proto::Dtype dtype, const Ranks& ranks, bool in_step);

    std::uint32_t count() const { return count_; }
    std::uint32_t vocab() const { return vocab_; }
    proto::Dtype dtype() const { return dtype_; }
    // A range of `row_bytes()` bytes, to time a plain read.
    const void* bytes(std::uint32_t index) const { return lines_.data() + index * lines_per_row_; }
    std::size_t row_bytes() const { return lines_per_row_ * sizeof(Line); }
    sampler::RowView view(std::uint32_t index, bool summarised) const;

  private:
    struct alignas(64) Line {
        std::byte bytes[64];
    };

    // A rank's part of each row.
    struct Part {
        std::uint32_t first_id;
        std::uint32_t entries;
        std::size_t first_line;
        std::uint32_t first_tile;
        std::uint32_t blocks;
    };

    void cut(const Ranks& ranks);
    void lay(const std::uint16_t* codes, std::uint32_t index);
    std::size_t line_of(const Part& part, std::uint32_t index, std::uint32_t block) const;
    sampler::Slice slice_of(const Part& part, std::uint32_t index) const;
    void lay_block(const std::uint16_t* codes, std::uint32_t index, const Part& part, std::uint32_t block);

    std::uint32_t vocab_;
    std::uint32_t count_;
    proto::Dtype dtype_;
    bool in_step_;
    std::size_t lines_per_block_;
    std::size_t lines_per_row_ = 0;
    std::uint32_t tiles_per_row_ = 0;
    std::vector<Part> parts_;
    std::vector<Line> lines_;
    std::vector<float> maxima_;           // [row][tile], tiles of all parts in order
    std::vector<sampler::Slice> slices_;  // for each row, without and then with summaries
};

}  // namespace croupier::measurement
