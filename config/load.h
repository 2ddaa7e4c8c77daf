// Reads a configuration file. Every mistake up to the first in its YAML is reported at once, and nothing is
// thrown.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace croupier::config {

struct Problem {
    std::string file;
    int line = 0;     // 1-based; 0: the file as a whole
    int column = 0;   // 1-based; 0: the file as a whole
    std::string key;  // "samplers.count"; empty when no key is concerned
    std::string message;
};

std::string to_string(const Problem& problem);  // "file:line:column: key: message"

struct LoadResult {
    std::optional<Config> config;   // set when there is no problem
    std::vector<Problem> problems;  // in the order of lines
};

// Keys that a file leaves out have their defaults; an empty file is the default configuration.
LoadResult load_file(const std::string& path);
LoadResult load_text(std::string_view text, const std::string& name);

}  // namespace croupier::config
