// Reads and writes the file of a hotness order (proto/hotness_file.h). Every lie in one is refused with an
// error that names the file, the field, what it holds and what would be right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "proto/hotness_file.h"
#include "shm/error.h"

namespace croupier::shm {

struct HotnessFile {
    proto::HotnessFileHeader header;
    proto::HotnessOrder order;
};

// With `vocab`, an order of another vocabulary is refused too.
Result<HotnessFile> load_hotness(const std::string& path, std::optional<std::uint32_t> vocab);
// The file appears whole under its name, or what was there stays: written beside it, synced and renamed.
Result<bool> save_hotness(const std::string& path, const proto::HotnessOrder& order);

// What lies in a file; `name` is what errors call it.
Result<HotnessFile> decode_hotness(std::span<const std::byte> bytes, const std::string& name);
std::vector<std::byte> encode_hotness(const proto::HotnessOrder& order);

}  // namespace croupier::shm
