#include "config/reload.h"

#include "config/schema.h"

namespace croupier::config {

std::vector<std::string> unreloadable_changes(const Config& running, const Config& wanted) {
    std::vector<std::string> changed;
    for (const Key& key : keys()) {
        if (key.change == Change::restart && key.write(running) != key.write(wanted))
            changed.push_back(key.path);
    }
    return changed;
}

Config reloaded(const Config& running, const Config& wanted) {
    Config result = running;
    for (const Key& key : keys()) {
        if (key.change == Change::reload) key.copy(result, wanted);
    }
    return result;
}

}  // namespace croupier::config
