// Reads one line of a JSON lines trace.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace croupier::tools {

// Adds the line's ids to `count_of_id`, which has an entry for each id of the vocabulary. Throws
// RequestError; its message begins with `where`.
void count_json_line(std::string_view line, const std::string& where, std::span<double> count_of_id);

}  // namespace croupier::tools
