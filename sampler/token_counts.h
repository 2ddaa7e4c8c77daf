// How often each token stands in a history. Memory and time go by the distinct tokens, not by the vocabulary.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace croupier::sampler {

class TokenCounts {
  public:
    static constexpr std::uint32_t kInPrompt = 1U << 31U;  // of a standing; the rest is its count
    static constexpr std::uint32_t kCount = kInPrompt - 1;

    // No token stands anywhere. Keeps its memory.
    void clear();

    void add(std::uint32_t token);
    void add_in_prompt(std::uint32_t token);
    // Takes one occurrence back; there must be one.
    void leave(std::uint32_t token);

    // 0 of a token that stands nowhere. Not to be asked before the first clear().
    // A decision asks it of tokens of which no processor could predict whether they stand somewhere: four
    // places are compared at once, and only a full bucket that lacks the token, which is rare, branches.
    std::uint32_t standing(std::uint32_t token) const {
        for (std::uint32_t at = home(token);; at = (at + 1) & bucket_mask_) {
            const Bucket& bucket = buckets_[at];
            std::uint32_t found = 0;
            for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
                const std::uint32_t same = bucket.tokens[lane] == token ? 1 : 0;
                found |= bucket.standings[lane] & (0U - same);
            }
            const std::uint32_t ends = bucket.tokens[kLanes - 1] == kNone ? 1 : 0;
            if ((found | ends) != 0) [[likely]]
                return found;
        }
    }
    void prefetch(std::uint32_t token) const { __builtin_prefetch(&buckets_[home(token)]); }

    // All tokens that stand somewhere, each once, in no particular order.
    std::span<const std::uint32_t> distinct() const { return distinct_; }

    std::size_t bytes() const;

  private:
    static constexpr std::uint32_t kNone = ~std::uint32_t{0};
    static constexpr std::uint32_t kLanes = 4;
    static constexpr std::uint32_t kFirstBits = 4;  // of the number of buckets

    // Places follow each other, lane by lane; a token stands in the first that was empty from its home
    // bucket's first lane on. So a bucket whose last lane is empty ends every search.
    struct alignas(32) Bucket {
        std::array<std::uint32_t, kLanes> tokens;
        std::array<std::uint32_t, kLanes> standings;
    };
    static constexpr Bucket kEmpty = {{kNone, kNone, kNone, kNone}, {}};

    // Multiplicative hashing: the product's high bits depend on all bits of the token.
    std::uint32_t home(std::uint32_t token) const { return token * 0x9E3779B1U >> shift_; }
    std::uint32_t& token_at(std::uint32_t place) { return buckets_[place / kLanes].tokens[place % kLanes]; }
    std::uint32_t& standing_at(std::uint32_t place) {
        return buckets_[place / kLanes].standings[place % kLanes];
    }
    std::uint32_t next(std::uint32_t place) const {
        return (place + 1) & (bucket_mask_ * kLanes + kLanes - 1);
    }
    std::uint32_t place_of(std::uint32_t token);  // or the empty one where it belongs
    std::uint32_t place_with_room(std::uint32_t token);
    void use_buckets(std::uint32_t bits);
    void empty_place(std::uint32_t place);

    std::uint32_t shift_ = 32 - kFirstBits;
    std::uint32_t bucket_mask_ = 0;
    std::vector<Bucket> buckets_;           // a power of two of them; at most half of the places are taken
    std::vector<std::uint32_t> listed_at_;  // by place: where its token stands in distinct_
    std::vector<std::uint32_t> distinct_;
};

}  // namespace croupier::sampler
