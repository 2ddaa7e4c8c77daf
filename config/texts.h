// The types of values that are text: names, paths, endpoints, addresses.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "config/value_type.h"

namespace croupier::config {

constexpr std::size_t longest_instance_name = 32;
ValueType<std::string> instance_name();
ValueType<std::string> group_name();
ValueType<std::string> directory(std::size_t longest);
ValueType<std::string> optional_file();
ValueType<std::string> endpoint();
ValueType<std::string> listen_address();
ValueType<std::vector<std::string>> host_names();

bool is_tcp(std::string_view endpoint);

// "count 4", "count:4" and "count = 4" are all "count: 4"; empty when the text begins with no key.
std::string with_colon(std::string_view text);

std::string quoted(std::string_view text);  // in double quotes, as YAML reads it back

}  // namespace croupier::config
