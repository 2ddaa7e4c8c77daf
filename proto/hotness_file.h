// The file of a hotness order: this header, then float64 counts[vocab], then int32 ids[vocab], and nothing
// after them. Everything is little-endian. The same order is always the same bytes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "proto/checksum.h"
#include "proto/hotness_order.h"

namespace croupier::proto {

static_assert(std::endian::native == std::endian::little,
              "the file is read and written as it lies in memory");

constexpr std::uint64_t kHotnessMagic = 0x3130544F48505243ULL;  // "CRPHOT01"
// Grows with every change to the header or to what follows it; old and new refuse each other by it.
constexpr std::uint32_t kHotnessVersion = 1;

struct HotnessFileHeader {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t header_bytes;
    std::uint32_t vocab;
    std::uint32_t model_bytes;
    double counted;  // all counts together, HotnessOrder::counted()
    double smoothing;
    char model[kMaxModelName];  // UTF-8, zeros after model_bytes
    std::uint64_t checksum;     // Checksum of the header's bytes before it and of all bytes after it
};
static_assert(sizeof(HotnessFileHeader) == 160, "bump kHotnessVersion when the header changes");
static_assert(offsetof(HotnessFileHeader, model) == 40 && offsetof(HotnessFileHeader, checksum) == 152);

// The counts come first: they need eight bytes' alignment whatever the vocabulary, the ids do not.
constexpr std::size_t hotness_ids_offset(std::uint32_t vocab) {
    return sizeof(HotnessFileHeader) + std::size_t{vocab} * sizeof(double);
}
constexpr std::size_t hotness_file_bytes(std::uint32_t vocab) {
    return hotness_ids_offset(vocab) + std::size_t{vocab} * sizeof(std::int32_t);
}

// Of a whole file's bytes, whatever its checksum field holds.
inline std::uint64_t hotness_checksum(const std::byte* file, std::size_t size) {
    Checksum checksum;
    checksum.add(file, offsetof(HotnessFileHeader, checksum));
    checksum.add(file + sizeof(HotnessFileHeader), size - sizeof(HotnessFileHeader));
    return checksum.value();
}

}  // namespace croupier::proto
