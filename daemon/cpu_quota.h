// How many CPUs this process's control group may use at once.
#pragma once

#include <optional>

namespace croupier::daemon {

// The least quota of the group and of those above it that can be seen from here, in CPUs; nothing: no limit.
// A quota is no cpuset: the scheduler shows all cores and stops the group when its share of a period is used
// up.
std::optional<double> cpu_quota();

}  // namespace croupier::daemon
