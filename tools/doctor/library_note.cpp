#include "tools/doctor/library_note.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

#include "shm/build_note.h"

namespace croupier::tools::doctor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libcroupier.so";
constexpr const char* kDeleted = " (deleted)";
constexpr std::uintmax_t kMostBytes = std::uintmax_t{256} << 20U;

bool is_library(const std::string& path) {
    return fs::path(path).filename().string().starts_with(kLibrary);
}

// Of a live engine: what it has mapped.
void add_mapped(pid_t process, std::vector<EngineLibrary>& found) {
    const std::string folder = "/proc/" + std::to_string(process);
    std::ifstream maps(folder + "/maps");
    for (std::string line; std::getline(maps, line);) {
        const auto slash = line.find('/');
        if (slash == std::string::npos) continue;
        std::string path = line.substr(slash);
        const bool replaced = path.ends_with(kDeleted);
        if (replaced) path.resize(path.size() - std::string_view(kDeleted).size());
        if (!is_library(path)) continue;
        // By the process's own root: it may be in a container.
        found.push_back({path, "engine " + std::to_string(process),
                         std::string(folder).append("/root").append(path), replaced});
        return;
    }
}

void add_of_system(std::vector<EngineLibrary>& found) {
    for (const char* folder :
         {"/usr/local/lib", "/usr/local/lib/x86_64-linux-gnu", "/usr/local/lib/aarch64-linux-gnu",
          "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"}) {
        std::error_code failure;
        for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end;
             entry.increment(failure)) {
            const std::string path = entry->path().string();
            // The others are links to the one with the whole version.
            if (is_library(path) && !entry->is_symlink(failure)) found.push_back({path, "", path});
        }
    }
}

}  // namespace

std::optional<LibraryNote> note_of(const std::string& file) {
    std::error_code failure;
    if (!fs::is_regular_file(file, failure) || fs::file_size(file, failure) > kMostBytes) return std::nullopt;
    std::ifstream stream(file, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(stream), {});
    const auto start = bytes.find(shm::kBuildNoteStart);
    if (start == std::string::npos) return std::nullopt;
    const std::string note = bytes.substr(start + shm::kBuildNoteStart.size(),
                                          bytes.find('\0', start) - start - shm::kBuildNoteStart.size());
    const auto semicolon = note.find("; ");
    if (semicolon == std::string::npos || note.size() > sizeof(shm::BuildNote::text)) return std::nullopt;
    return LibraryNote{note.substr(0, semicolon), note.substr(semicolon + 2)};
}

std::vector<EngineLibrary> engine_libraries(const Examined& examined) {
    std::vector<EngineLibrary> found;
    if (!examined.request.library.empty()) return {{examined.request.library, "", examined.request.library}};
    for (const pid_t client : examined.daemon.clients) add_mapped(client, found);
    const std::string& of_python = examined.python.library;
    if (!of_python.empty()) found.push_back({of_python, "Python's package", of_python});
    add_of_system(found);
    return found;
}

}  // namespace croupier::tools::doctor
