// A thread of a sampler: its number in the sampler, and among all threads of all samplers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace croupier::daemon {

struct Lane {
    std::size_t thread = 0;
    std::uint32_t number = 0;
};

}  // namespace croupier::daemon
