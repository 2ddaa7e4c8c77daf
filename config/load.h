// Reads a configuration file. Every mistake up to the first in its YAML is reported at once, and nothing is
// thrown.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/document.h"

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
    std::optional<Config> config;              // set when there is no problem
    std::vector<Problem> problems;             // in the order of lines
    std::string file;                          // empty: no file, built-in defaults
    std::map<std::string, Place> places = {};  // of the keys and sections in the file

    // In words: the file, or the built-in defaults.
    std::string origin() const { return file.empty() ? "built-in defaults" : file; }
    // Of a key in the file that is in `config`: what is wrong with its value on this host.
    Problem problem(const std::string& key, std::string message) const;
};

// Of the host's daemon, when no file is named.
constexpr const char* kHostFile = "/etc/croupier/croupierd.yaml";

// The file that is named. Without a name, what a daemon at these paths starts with: the host's reads
// kHostFile where it is there; all others have the built-in defaults.
LoadResult load(const std::string& named, const proto::DefaultPaths& paths = proto::default_paths());

// Keys that a file leaves out have their defaults; an empty file is the default configuration.
LoadResult load_file(const std::string& path, const Config& defaults = default_config());
LoadResult load_text(std::string_view text, const std::string& name,
                     const Config& defaults = default_config());

}  // namespace croupier::config
