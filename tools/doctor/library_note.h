// What build a library's file is of, without running any of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/doctor/examined.h"

namespace croupier::tools::doctor {

struct LibraryNote {
    std::string version;  // "1.0.0"
    std::string layouts;  // "segment 14, messages 1"
};
// Nothing: the file cannot be read, or is of a build that says nothing of itself.
std::optional<LibraryNote> note_of(const std::string& file);

struct EngineLibrary {
    std::string path;       // as one would name it
    std::string loaded;     // by whom, in words; empty: none that is known
    std::string file;       // where it can be read from here
    bool replaced = false;  // its file is another one by now
};
// Those that engines of this host have loaded or will load: of live sessions, of Python's package, of the
// system.
std::vector<EngineLibrary> engine_libraries(const Examined& examined);

}  // namespace croupier::tools::doctor
