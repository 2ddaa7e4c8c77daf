// Which transports this machine can run.
#pragma once

#include <cstdint>

#include "fan_out/fan_out.h"

namespace croupier::testing {

// Says so, once a test, when this machine cannot run it; fails where CROUPIER_TEST_GPU is `required`.
bool can_run(fan_out::Transport transport);
std::uint32_t most_members(fan_out::Transport transport);

}  // namespace croupier::testing
