// Tells the service manager that the relay is ready, its status, and that it is alive.
#pragma once

#include <chrono>

#include "fan_out/relay.h"

namespace croupier::tools {

// `longest_look`: the longest time between two calls of on_look. A shorter watchdog is extended.
fan_out::RelayObserver service_observer(std::chrono::seconds longest_look);

// Call this just before the relay ends.
void tell_service_manager_of_the_end();

}  // namespace croupier::tools
