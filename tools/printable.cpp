#include "tools/printable.h"

#include <spdlog/fmt/fmt.h>

namespace croupier::tools {

std::string printable(std::string_view text) {
    std::string shown;
    for (const char c : text) {
        if (c >= ' ' && c < 127 && c != '\\') {
            shown += c;
        } else {
            shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        }
    }
    return shown;
}

}  // namespace croupier::tools
