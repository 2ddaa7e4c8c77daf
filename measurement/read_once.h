// The yardstick: what it costs to read a row's bytes once, with the widest loads that this machine has.
#pragma once

#include <cstddef>
#include <cstdint>

namespace croupier::measurement {

// Returns a value that depends on every byte, so that no read can be left out.
std::uint64_t read_once(const void* bytes, std::size_t count);

}  // namespace croupier::measurement
