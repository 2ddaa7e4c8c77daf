// What a service manager is told of a relay: that it is ready, what it does, that it lives.
#pragma once

#include <chrono>

#include "fan_out/relay.h"

namespace croupier::tools {

// `longest_look`: how long the relay may go without a look. A watchdog that is shorter is asked for more.
fan_out::RelayObserver service_observer(std::chrono::seconds longest_look);

// Just before the end.
void tell_service_manager_of_the_end();

}  // namespace croupier::tools
