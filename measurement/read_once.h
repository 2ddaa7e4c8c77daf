// The baseline of row benchmarks: reads bytes once with the widest loads of this machine.
#pragma once

#include <cstddef>
#include <cstdint>

namespace croupier::measurement {

// The result depends on every byte, so that the compiler cannot omit a read.
std::uint64_t read_once(const void* bytes, std::size_t count);

}  // namespace croupier::measurement
