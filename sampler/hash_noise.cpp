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

// murmur_hash of sampler/gumbel.h from the token on, operation for operation.
HWY_INLINE HashVector HashesOf(std::uint32_t before, HashVector tokens) {
    const HashWords d;
    const auto c = [d](std::uint32_t value) HWY_ATTR { return hn::Set(d, value); };
    auto word = hn::Mul(tokens, c(0xCC9E2D51U));
    word = hn::Mul(hn::Or(hn::ShiftLeft<15>(word), hn::ShiftRight<17>(word)), c(0x1B873593U));
    auto hash = hn::Xor(c(before), word);
    hash = hn::Or(hn::ShiftLeft<13>(hash), hn::ShiftRight<19>(hash));
    hash = hn::Xor(hn::Add(hn::Mul(hash, c(5)), c(0xE6546B64U)), c(16));
    hash = hn::Mul(hn::Xor(hash, hn::ShiftRight<16>(hash)), c(0x85EBCA6BU));
    hash = hn::Mul(hn::Xor(hash, hn::ShiftRight<13>(hash)), c(0xC2B2AE35U));
    return hn::Xor(hash, hn::ShiftRight<16>(hash));
}

// The least uniform is 2^-33, and sglang clamps its noise at one that is larger: no noise makes up for less.
constexpr float kLeastShare = 0x1p-34F;

std::size_t ListHashesWithin(std::uint32_t before, bool largest_win, std::span<const float> shares,
                             std::span<std::uint32_t> room) {
    const HashWords d;
    const std::size_t lanes = hn::Lanes(d);
    HWY_ALIGN std::uint32_t passed[kBlock];
    std::size_t count = 0;
    for (std::size_t block = 0; block < shares.size(); ++block) {
        if (shares[block] < kLeastShare) continue;
        // Two more than the share asks for: its own rounding and the uniform's half.
        const double reach = std::min(static_cast<double>(shares[block]) * 0x1p32 + 2.0, 0x1p32 - 1.0);
        const auto last = hn::Set(d, static_cast<std::uint32_t>(reach));
        for (std::size_t i = 0; i < kBlock; i += lanes) {
            const auto tokens = hn::Iota(d, static_cast<std::uint32_t>(block * kBlock + i));
            const auto hashes = HashesOf(before, tokens);
            const auto from_end = largest_win ? hn::Not(hashes) : hashes;
            const auto within = hn::Eq(hn::Min(from_end, last), from_end);
            if (hn::AllFalse(d, within)) continue;
            const std::size_t some = hn::CompressStore(tokens, within, d, passed);
            for (std::size_t k = 0; k < some; ++k, ++count) {
                if (count < room.size()) room[count] = passed[k];
            }
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
