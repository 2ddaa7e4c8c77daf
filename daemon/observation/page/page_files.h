// The files of the page at /, compiled in: daemon/observation/page/CMakeLists.txt lists them.
#pragma once

#include <span>
#include <string_view>

namespace croupier::daemon {

struct PageFile {
    std::string_view path;
    std::string_view content_type;
    std::string_view text;
};

std::span<const PageFile> page_files();

}  // namespace croupier::daemon
