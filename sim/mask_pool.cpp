#include "sim/mask_pool.h"

#include "sim/keyed_hash.h"

namespace croupier::sim {
namespace {

enum KeySpace : std::uint64_t { kMaskKey = 6, kMaskChoiceKey = 7 };

// Mask i allows 2^-i of the vocabulary, as strict grammars do; mask 0 forbids 1/16 instead.
constexpr std::uint32_t kMasks = 8;

std::uint32_t allowed_bits(std::uint64_t seed, std::uint32_t mask, std::uint32_t word) {
    KeyedStream random(key_of(seed, kMaskKey, mask, word));
    auto bits = static_cast<std::uint32_t>(random.next());
    if (mask == 0) {
        for (int more = 0; more < 3; ++more) bits |= static_cast<std::uint32_t>(random.next());
        return bits;
    }
    for (std::uint32_t less = 1; less < mask; ++less) bits &= static_cast<std::uint32_t>(random.next());
    return bits;
}

}  // namespace

MaskPool::MaskPool(std::uint64_t seed, std::uint32_t vocab) : seed_(seed), masks_(kMasks) {
    for (std::uint32_t mask = 0; mask < kMasks; ++mask) {
        masks_[mask].resize((vocab + 31) / 32);
        for (std::uint32_t word = 0; word < masks_[mask].size(); ++word) {
            masks_[mask][word] = allowed_bits(seed, mask, word);
        }
        // Allows at least one token: an empty mask would end the request with an error.
        masks_[mask][0] |= 1U << mask;
    }
}

std::span<const std::uint32_t> MaskPool::row(const Request& request, std::uint32_t position) const {
    if (!request.masked) return {};
    return masks_[key_of(seed_, kMaskChoiceKey, request.index, position) % kMasks];
}

}  // namespace croupier::sim
