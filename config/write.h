// A configuration as YAML, and the two documents that are generated from the schema.
#pragma once

#include <string>

#include "config/config.h"

namespace croupier::config {

std::string to_yaml(const Config& config);  // every key; load_text reads it back

std::string example_yaml();        // config/croupierd.yaml
std::string reference_markdown();  // docs/configuration.md

}  // namespace croupier::config
