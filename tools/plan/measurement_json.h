// A measurement as JSON. The file may come from another host, so every field is checked.
#pragma once

#include <nlohmann/json.hpp>

#include "tools/plan/measurement.h"

namespace croupier::tools {

nlohmann::ordered_json measurement_to_json(const Measurement& measurement);
// Throws std::runtime_error with the field and what is allowed.
Measurement measurement_from_json(const nlohmann::json& json);

nlohmann::ordered_json setting_to_json(const Setting& setting);

}  // namespace croupier::tools
