#include "testing/file_text.h"

#include <fstream>
#include <ios>
#include <iterator>

namespace croupier::testing {

std::optional<std::string> text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return std::nullopt;
    // A folder can be opened and a disk can fail: the iterator then throws, whatever the stream's exception
    // mask is.
    try {
        return std::string(std::istreambuf_iterator<char>(file), {});
    } catch (const std::ios_base::failure&) {
        return std::nullopt;
    }
}

}  // namespace croupier::testing
