# cmake -D FILES=a;b -D OUTPUT=page_files.cpp -P EmbedPage.cmake: the files' text in a table of paths. index.html is /, the others
# have their names.
set(types html "text/html" css "text/css" js "text/javascript" svg "image/svg+xml")
set(rows "")
foreach(file IN LISTS FILES)
    get_filename_component(name "${file}" NAME)
    string(REGEX REPLACE "^.*\\." "" ending "${name}")
    list(FIND types "${ending}" place)
    if(place EQUAL -1)
        message(FATAL_ERROR "${file}: no content type is known for .${ending}: ${types}")
    endif()
    math(EXPR place "${place} + 1")
    list(GET types ${place} type)
    if(name STREQUAL "index.html")
        set(name "")
    endif()
    file(READ "${file}" text)
    string(APPEND rows "    PageFile{\"/${name}\", \"${type}; charset=utf-8\", R\"page(${text})page\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "#include \"daemon/observation/page/page_files.h\"

#include <array>

namespace croupier::daemon {
namespace {
constexpr std::array kFiles = {
${rows}};
}

std::span<const PageFile> page_files() {
    return kFiles;
}

}  // namespace croupier::daemon
")
