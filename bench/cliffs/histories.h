// The histories of random requests: a text as a model would have written it, and a passage of it that
// repeats.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "bench/cliffs/drawn_request.h"
#include "bench/decide/bench_sequence.h"

namespace croupier::bench {

class Histories {
  public:
    // Each column of a step begins at another token.
    Histories(const measurement::BenchRows& rows, std::uint32_t longest, std::uint32_t columns)
        : longest_(longest),
          written_(written_text(rows, std::max(longest + columns, kLikely))),
          repeated_(written_.size()) {
        constexpr std::size_t kPassage = 60;
        for (std::size_t i = 0; i < repeated_.size(); ++i) repeated_[i] = written_[i % kPassage];
    }

    // Tokens that a model writes: the same whatever the longest history is.
    std::span<const std::int32_t> likely() const { return std::span(written_).first(kLikely); }
    std::uint32_t longest() const { return longest_; }
    std::span<const std::int32_t> of(const DrawnRequest& drawn, std::uint32_t column) const {
        return std::span(drawn.repeats ? repeated_ : written_).subspan(column, drawn.history);
    }

  private:
    static constexpr std::uint32_t kLikely = 2000;

    std::uint32_t longest_;
    std::vector<std::int32_t> written_;
    std::vector<std::int32_t> repeated_;
};

}  // namespace croupier::bench
