// The machine and version of a measurement, stored with every raw result.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace croupier::measurement {

nlohmann::json environment();

}  // namespace croupier::measurement
