#include "gpu_writer/named_blocks.h"

#include <bit>
#include <cstddef>

#include "proto/geometry.h"

namespace croupier::gpu_writer {

void NamedBlocks::add(std::int32_t token) {
    const std::uint32_t block = static_cast<std::uint32_t>(token) / proto::kBlockIds - first_block_;
    if (token < 0 || block >= blocks_) return;
    const std::uint64_t bit = std::uint64_t{1} << (block % 64);
    if ((bits_[block / 64] & bit) == 0) ++count_;
    bits_[block / 64] |= bit;
}

std::optional<std::uint16_t> NamedBlocks::take(std::span<std::uint16_t> list) {
    std::size_t named = 0;
    for (std::size_t word = 0; word < bits_.size(); ++word) {
        for (std::uint64_t bits = bits_[word]; bits != 0; bits &= bits - 1) {
            const std::size_t block = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
            if (named < list.size()) list[named] = static_cast<std::uint16_t>(block);
            ++named;
        }
        bits_[word] = 0;
    }
    count_ = 0;
    if (named > list.size()) return std::nullopt;
    return static_cast<std::uint16_t>(named);
}

}  // namespace croupier::gpu_writer
