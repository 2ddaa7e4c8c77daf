// Numbers of an answer as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace croupier::explain {

using OrderedJson = nlohmann::ordered_json;

std::vector<std::string> flag_names(std::uint16_t flags);
// A number, or "nan", "inf" or "-inf".
OrderedJson number(double value);
// The double with the shortest decimal form that still rounds to the same float.
double shortest(float value);

}  // namespace croupier::explain
