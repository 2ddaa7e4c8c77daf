// Compiled once for each instruction set and chosen at run time.
#include "sampler/hash_noise.h"

#include <algorithm>
#include <cstddef>

#include "sampler/gumbel.h"
#include "sampler/workspace.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sampler/hash_noise.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace croupier::sampler::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using HashWords = hn::CappedTag<std::uint32_t, 16>;
using HashVector = hn::Vec<HashWords>;

// murmur_hash of sampler/gumbel.h, operation for operation, of consecutive tokens: their first products
// follow from one another by sums.
class Hashes {
  public:
    HWY_INLINE Hashes(std::uint32_t before, std::uint32_t first)
        : before_(hn::Set(d_, before)),
          second_(hn::Set(d_, 0x1B873593U)),
          added_(hn::Set(d_, 0xE6546B64U)),
          length_(hn::Set(d_, 16)),
          third_(hn::Set(d_, 0x85EBCA6BU)),
          fourth_(hn::Set(d_, 0xC2B2AE35U)),
          step_(hn::Set(d_, static_cast<std::uint32_t>(hn::Lanes(d_)) * kFirst)),
          product_(hn::Mul(hn::Iota(d_, first), hn::Set(d_, kFirst))) {}

    HWY_INLINE HashVector next() {
        auto word = hn::Or(hn::ShiftLeft<15>(product_), hn::ShiftRight<17>(product_));
        product_ = hn::Add(product_, step_);
        word = hn::Xor(before_, hn::Mul(word, second_));
        word = hn::Or(hn::ShiftLeft<13>(word), hn::ShiftRight<19>(word));
        word = hn::Add(hn::Add(hn::ShiftLeft<2>(word), word), added_);
        word = hn::Xor(word, length_);
        word = hn::Mul(hn::Xor(word, hn::ShiftRight<16>(word)), third_);
        word = hn::Mul(hn::Xor(word, hn::ShiftRight<13>(word)), fourth_);
        return hn::Xor(word, hn::ShiftRight<16>(word));
    }

  private:
    static constexpr std::uint32_t kFirst = 0xCC9E2D51U;

    const HashWords d_;
    const HashVector before_, second_, added_, length_, third_, fourth_, step_;
    HashVector product_;
};

// The least uniform is 2^-33, and sglang clamps its noise at one that is larger: no noise makes up for less.
constexpr float kLeastShare = 0x1p-34F;

// Most blocks have no token that passes: their hashes are made side by side, with one branch for all.
std::size_t ListHashesWithin(std::uint32_t before, bool largest_win, std::span<const float> shares,
                             std::span<std::uint32_t> room) {
    const HashWords d;
    const std::size_t lanes = hn::Lanes(d);
    const auto flip = hn::Set(d, largest_win ? ~std::uint32_t{0} : 0);
    HWY_ALIGN std::uint32_t from_end[kBlock];
    std::size_t count = 0;
    for (std::size_t block = 0; block < shares.size(); ++block) {
        if (shares[block] < kLeastShare) continue;
        // Two more than the share asks for: its own rounding and the uniform's half.
        const double reach = std::min(static_cast<double>(shares[block]) * 0x1p32 + 2.0, 0x1p32 - 1.0);
        const auto last = static_cast<std::uint32_t>(reach);
        const auto first = static_cast<std::uint32_t>(block * kBlock);
        Hashes hashes(before, first);
        auto least = hn::Set(d, ~std::uint32_t{0});
        for (std::size_t i = 0; i < kBlock; i += lanes) {
            const auto distance = hn::Xor(hashes.next(), flip);
            hn::Store(distance, d, from_end + i);
            least = hn::Min(least, distance);
        }
        const auto reached = hn::Set(d, last);
        if (hn::AllFalse(d, hn::Eq(hn::Min(least, reached), least))) continue;
        for (std::uint32_t i = 0; i < kBlock; ++i) {
            if (from_end[i] > last) continue;
            if (count < room.size()) room[count] = first + i;
            ++count;
        }
    }
    return count;
}

}  // namespace croupier::sampler::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace croupier::sampler {

HWY_EXPORT(ListHashesWithin);

std::uint32_t list_hashes_within(const HashKey& key, std::span<const float> shares,
                                 std::span<std::uint32_t> room) noexcept {
    const std::uint32_t before = murmur_before_token(key.seed, key.position);
    return static_cast<std::uint32_t>(
        HWY_DYNAMIC_DISPATCH(ListHashesWithin)(before, key.rng == proto::Rng::sglang, shares, room));
}

}  // namespace croupier::sampler
#endif  // HWY_ONCE
