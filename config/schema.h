// The one table of all keys: the loader, the writer, reloading and the reference are derived from it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/value_type.h"

namespace croupier::config {

enum class Change { restart, reload };  // what a change of the key takes: a restart, or SIGHUP

struct Key {
    std::string path;  // "control.curve.secret_key_file"
    std::string type;
    std::string allowed;
    Change change = Change::restart;
    std::string help;
    std::function<Wrong(Config&, const Scalar&)> read;
    std::function<std::string(const Config&)> write;  // as YAML
    std::function<void(Config& to, const Config& from)> copy;
};

struct Section {
    std::string path;
    std::string help;
};

// In the order of the reference; the keys of a section stand together, those of an inner section last.
const std::vector<Key>& keys();
const std::vector<Section>& sections();

const Key* find_key(std::string_view path);          // null: no such key
const Section* find_section(std::string_view path);  // null: no such section

}  // namespace croupier::config
