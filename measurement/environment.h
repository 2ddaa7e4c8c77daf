// Where a measurement was made: kept beside every raw result.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace croupier::measurement {

nlohmann::json environment();

}  // namespace croupier::measurement
