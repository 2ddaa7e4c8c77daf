// "Did you mean": the known word that a mistyped one is closest to.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace croupier::config {

// Nothing when no word is close enough to be a likely slip.
std::optional<std::string> nearest(std::string_view wrong, const std::vector<std::string>& known);

}  // namespace croupier::config
