// One line of a trace of JSON lines.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace croupier::tools {

// Counts the line's ids into `count_of_id`, which has an entry for each id of the vocabulary. Throws
// RequestError, which begins with `where`.
void count_json_line(std::string_view line, const std::string& where, std::span<double> count_of_id);

}  // namespace croupier::tools
