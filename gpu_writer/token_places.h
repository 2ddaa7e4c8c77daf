// Where a step's tokens stand until the GPU has them: a place for each ticket, and some tickets later the
// same place for another one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu_writer/answer_kernel.h"

namespace croupier::gpu_writer {

class TokenPlaces {
  public:
    TokenPlaces() = default;
    // `places` is even, and `words` has as many words for each place.
    TokenPlaces(std::span<TokenWord> words, std::uint32_t places) : words_(words), places_(places) {}

    static std::uint32_t tag_of(std::uint64_t ticket) { return static_cast<std::uint32_t>(ticket); }
    std::size_t first_of(std::uint64_t ticket) const { return ticket % places_ * columns(); }

    // Before the GPU looks for the ticket's tokens. A word has 32 bits of its ticket, and one that no step
    // has stored since would come round with them: the first time after they do, each place is cleared. Nor
    // does a later ticket of the place have the cleared words' tag: as `places` is even, the two are an odd
    // number apart.
    void begin(std::uint64_t ticket) {
        if (tag_of(ticket) >= places_) return;
        const auto own = words_.subspan(first_of(ticket), columns());
        std::fill(own.begin(), own.end(), TokenWord{-1, ~tag_of(ticket)});
    }
    void put(std::uint64_t ticket, std::uint32_t column, std::int32_t token) {
        const TokenWord word{token, tag_of(ticket)};
        std::atomic_ref(words_[first_of(ticket) + column]).store(word, std::memory_order_relaxed);
    }

  private:
    std::size_t columns() const { return words_.size() / places_; }

    std::span<TokenWord> words_;
    std::uint32_t places_ = 0;
};

}  // namespace croupier::gpu_writer
