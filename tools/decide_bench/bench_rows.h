// The rows of the benchmarks: from a file, or generated in a language model's shape.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sampler/row_view.h"

namespace croupier::tools {

class BenchRows {
  public:
    // bf16, row after row. Throws with what is wrong and what would be right.
    static BenchRows from_file(const std::vector<std::string>& paths, std::uint32_t vocab);
    static BenchRows generated(std::uint32_t vocab, std::uint32_t rows);

    // The same rows as a writer lays them that has this order of ids.
    BenchRows permuted(const std::vector<std::int32_t>& order) const;

    std::uint32_t count() const { return static_cast<std::uint32_t>(slices_.size() / 2); }
    std::uint32_t vocab() const { return vocab_; }
    std::size_t row_bytes() const { return std::size_t{vocab_} * sizeof(std::uint16_t); }
    // What each place of a row holds; empty: its own id.
    std::span<const std::int32_t> order() const { return order_; }
    const float* maxima(std::uint32_t index) const { return maxima_[index].data(); }
    const std::uint16_t* row(std::uint32_t index) const { return elements_.data() + stride() * index; }
    sampler::RowView view(std::uint32_t index, bool summarised) const;

  private:
    BenchRows(std::uint32_t vocab, std::vector<std::uint16_t> elements, std::uint32_t rows,
              std::vector<std::int32_t> order);
    std::size_t stride() const { return vocab_; }

    std::uint32_t vocab_;
    std::vector<std::uint16_t> elements_;
    std::vector<std::int32_t> order_;
    std::vector<std::vector<float>> maxima_;  // of each row's tiles of 64
    std::vector<sampler::Slice> slices_;      // two a row: without summaries and with them
};

}  // namespace croupier::tools
