// Reads the hotness order for the rows of a measurement.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace croupier::measurement {

// Returns all blocks of the vocabulary, hottest first. The file is from `croupier hotset build`, or holds
// int32 ids, hottest first. Throws std::runtime_error.
std::vector<std::uint32_t> read_order(const std::string& path, std::uint32_t vocab);

}  // namespace croupier::measurement
