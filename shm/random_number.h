// The kernel's randomness; nothing where it gives none.
#pragma once

#include <sys/random.h>

#include <cstdint>
#include <optional>

namespace croupier::shm {

inline std::optional<std::uint64_t> random_number() {
    std::uint64_t number = 0;
    if (::getrandom(&number, sizeof(number), 0) != sizeof(number)) return std::nullopt;
    return number;
}

}  // namespace croupier::shm
