// The hotness order that a benchmark lays its rows in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace croupier::measurement {

// All blocks of the vocabulary, hottest first: from a file of `croupier hotset build`, or of the bare ids as
// int32, hottest first. Throws with what is wrong.
std::vector<std::uint32_t> read_order(const std::string& path, std::uint32_t vocab);

}  // namespace croupier::measurement
