// FNV-1a, fed piece by piece: a guard against stray writes and damaged copies, not against an enemy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace croupier::proto {

constexpr std::uint64_t kChecksumOfNothing = 0xCBF29CE484222325ULL;
constexpr std::uint64_t kChecksumPrime = 0x100000001B3ULL;

class Checksum {
  public:
    void add(const void* data, std::size_t size) {
        const auto* bytes = static_cast<const unsigned char*>(data);
        for (std::size_t i = 0; i < size; ++i) hash_ = (hash_ ^ bytes[i]) * kChecksumPrime;
    }
    std::uint64_t value() const { return hash_; }

  private:
    std::uint64_t hash_ = kChecksumOfNothing;
};

// Over words of eight bytes: a record with grammar masks has megabytes, and byte by byte they would cost
// milliseconds a step. Each step is a bijection of the hash, so that no single changed word goes unseen. Each
// piece begins a word.
class WordChecksum {
  public:
    void add(const void* data, std::size_t size) {
        const auto* bytes = static_cast<const unsigned char*>(data);
        std::size_t at = 0;
        for (; size - at >= sizeof(std::uint64_t); at += sizeof(std::uint64_t))
            add_word(bytes + at, sizeof(std::uint64_t));
        if (at < size) add_word(bytes + at, size - at);
    }
    std::uint64_t value() const { return hash_; }

  private:
    void add_word(const unsigned char* begin, std::size_t size) {
        std::uint64_t word = 0;
        std::memcpy(&word, begin, size);
        hash_ = (hash_ ^ word) * kChecksumPrime;
        // Multiplication carries a change upwards only.
        hash_ ^= hash_ >> 32U;
    }

    std::uint64_t hash_ = kChecksumOfNothing;
};

}  // namespace croupier::proto
