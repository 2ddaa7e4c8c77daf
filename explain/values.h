// Values of an answer as JSON has them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace croupier::explain {

using OrderedJson = nlohmann::ordered_json;

std::vector<std::string> flag_names(std::uint16_t flags);
// A number, or "nan", "inf" and "-inf".
OrderedJson number(double value);
// The double that is written with the fewest digits that still are the same float, not the one that a float
// widens to.
double shortest(float value);

}  // namespace croupier::explain
