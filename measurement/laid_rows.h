// The benchmarks' rows as some session's ranks would have written them: of any dtype, in any number of
// slices.
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
    bool whole_blocks = false;  // cut between blocks of 64 ids, so that no block has two owners
};
// "4": as many ids each, wherever that cuts, as engines do; "4x64": cut at multiples of 64. Throws with what
// is wrong.
Ranks ranks_of(const std::string& name);

// Throws with the names that there are.
proto::Dtype dtype_of(const std::string& name);
const char* name_of(proto::Dtype dtype);

class LaidRows {
  public:
    // `rows` must lie by their ids. fp16 holds what it can of a bf16 logit; fp32 gets bits that bf16 has not,
    // by row and id, so that as many values differ as in a row that never was bf16. `in_step`: all rows are
    // columns of one step, as in a session's slice, where a row's blocks lie far apart; else each lies alone.
    LaidRows(const BenchRows& rows, proto::Dtype dtype, const Ranks& ranks, bool in_step);

    std::uint32_t count() const { return count_; }
    std::uint32_t vocab() const { return vocab_; }
    // As many as a row's, wherever that lies.
    const void* bytes(std::uint32_t index) const { return lines_.data() + index * lines_per_row_; }
    std::size_t row_bytes() const { return lines_per_row_ * sizeof(Line); }
    sampler::RowView view(std::uint32_t index, bool summarised) const;

  private:
    struct alignas(64) Line {
        std::byte bytes[64];
    };

    // A rank's part of every row.
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
    std::vector<float> maxima_;           // [row][tile], part after part
    std::vector<sampler::Slice> slices_;  // of each row without summaries, then with them
};

}  // namespace croupier::measurement
