// What the supervisor tells the outside about itself.
#pragma once

#include <atomic>
#include <cstdint>

namespace croupier::daemon {

struct Health {
    std::atomic<bool> ready{false};
    std::atomic<bool> draining{false};
    std::atomic<bool> socket_lost{false};  // no engine can open a session
    std::atomic<std::uint64_t> last_turn_ns{0};
};

}  // namespace croupier::daemon
