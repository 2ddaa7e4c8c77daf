// Rows of logits for measurements: from files, or generated with the distribution of a language model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sampler/row_view.h"

namespace croupier::measurement {

class BenchRows {
  public:
    // The files hold bf16 rows. Throws std::runtime_error with what is wrong and what is allowed.
    static BenchRows from_file(const std::vector<std::string>& paths, std::uint32_t vocab);
    static BenchRows generated(std::uint32_t vocab, std::uint32_t rows);

    // Returns these rows, which must be ordered by id, with their blocks in the given order.
    BenchRows in_order(const std::vector<std::uint32_t>& order) const;

    std::uint32_t count() const { return static_cast<std::uint32_t>(slices_.size() / 2); }
    std::uint32_t vocab() const { return vocab_; }
    std::size_t row_bytes() const { return std::size_t{places()} * sizeof(std::uint16_t); }
    // Entries per row, a whole number of blocks. Padding is -inf.
    std::uint32_t places() const { return static_cast<std::uint32_t>(blocks_.size()) * kTile; }
    std::uint32_t place_of(std::uint32_t id) const { return places_[id / kTile] * kTile + id % kTile; }
    std::uint32_t id_at(std::uint32_t place) const { return blocks_[place / kTile] * kTile + place % kTile; }
    // The blocks of a hot set of `hot` ids; empty for 0, which means that each row chooses its own blocks.
    std::span<const std::uint32_t> hot_blocks(std::uint32_t hot) const;
    const float* maxima(std::uint32_t index) const { return maxima_[index].data(); }
    const std::uint16_t* row(std::uint32_t index) const {
        return elements_.data() + std::size_t{places()} * index;
    }
    sampler::RowView view(std::uint32_t index, bool summarised) const;

  private:
    static constexpr std::uint32_t kTile = 64;

    // `by_id`: rows of `stride` elements.
    BenchRows(std::uint32_t vocab, const std::vector<std::uint16_t>& by_id, std::size_t stride,
              std::vector<std::uint32_t> blocks);

    std::uint32_t vocab_;
    std::vector<std::uint32_t> blocks_;  // the block at each place
    std::vector<std::uint32_t> places_;  // its inverse
    std::vector<std::uint16_t> elements_;
    std::vector<std::vector<float>> maxima_;  // of each row's tiles of 64 entries
    std::vector<sampler::Slice> slices_;      // two per row: without and with summaries
};

}  // namespace croupier::measurement
