// Which of a rank's blocks hold the ids that a request names: those that it allows alone, or lifts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace croupier::gpu_writer {

class NamedBlocks {
  public:
    NamedBlocks(std::uint32_t first_block, std::uint32_t blocks)
        : first_block_(first_block), blocks_(blocks), bits_((blocks + 63) / 64) {}

    // An id of another rank, or of none, names nothing.
    void add(std::int32_t token);
    std::size_t count() const { return count_; }

    // Moves what was added to the list, each block once, in ascending order, and says how many they are.
    // Nothing: they are more than it has room for.
    std::optional<std::uint16_t> take(std::span<std::uint16_t> list);

  private:
    std::uint32_t first_block_;
    std::uint32_t blocks_;
    std::vector<std::uint64_t> bits_;  // all zero between two requests
    std::size_t count_ = 0;
};

}  // namespace croupier::gpu_writer
