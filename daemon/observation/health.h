// What the supervisor tells the outside about itself.
#pragma once

#include <atomic>
#include <cstdint>

namespace croupier::daemon {

struct Health {
    std::atomic<bool> ready{false};
    std::atomic<bool> draining{false};
    std::atomic<std::uint64_t> last_turn_ns{0};
};

}  // namespace croupier::daemon
