// FNV-1a, fed piece by piece: a guard against stray writes and damaged copies, not against an enemy.
#pragma once

#include <cstddef>
#include <cstdint>

namespace croupier::proto {

class Checksum {
  public:
    void add(const void* data, std::size_t size) {
        const auto* bytes = static_cast<const unsigned char*>(data);
        for (std::size_t i = 0; i < size; ++i) hash_ = (hash_ ^ bytes[i]) * 0x100000001B3ULL;
    }
    std::uint64_t value() const { return hash_; }

  private:
    std::uint64_t hash_ = 0xCBF29CE484222325ULL;
};

}  // namespace croupier::proto
