#include "tools/status/cleanup.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <set>
#include <string_view>

#include "shm/capture_exchange.h"
#include "shm/plane.h"
#include "shm/session_record.h"
#include "shm/snapshot.h"

namespace croupier::tools {
namespace {

constexpr std::string_view kPrefix = "croupier-";

void remove(const std::string& path, Cleaned& cleaned) {
    if (::unlink(path.c_str()) == 0) {
        cleaned.removed.push_back(path);
    } else if (errno != ENOENT) {
        cleaned.kept.push_back({path, shm::system_failure("cannot remove", path, errno).message});
    }
}

// Why the segment must stay; empty when it need not. By its locks alone, which every version has.
std::string held_by(const std::string& path) {
    const auto file = shm::open_file(path, shm::Access::read_only);
    // What cannot be opened may be held.
    if (!file) return file.error().code == shm::Errc::not_found ? "" : file.error().message;
    return shm::first_locked_byte(file.value()) ? "a live process holds it" : "";
}

}  // namespace

std::vector<std::string> instances_in(const std::string& directory) {
    std::set<std::string> names;
    std::error_code failure;
    for (const auto& entry : std::filesystem::directory_iterator(directory, failure)) {
        const std::string file = entry.path().filename();
        if (!file.starts_with(kPrefix)) continue;
        // croupier-NAME.plane, croupier-NAME-ID.seg
        const auto end = file.ends_with(".plane") ? file.rfind('.')
                         : file.ends_with(".seg") ? file.rfind('-')
                                                  : std::string::npos;
        if (end != std::string::npos && end > kPrefix.size())
            names.insert(file.substr(kPrefix.size(), end - kPrefix.size()));
    }
    return {names.begin(), names.end()};
}

shm::Result<Cleaned> clean_up(const std::string& directory, const std::string& instance) {
    Cleaned cleaned;
    const bool is_there = std::filesystem::exists(directory);
    CROUPIER_TRY_VALUE(lock, is_there ? shm::lock_directory(directory) : shm::FileDescriptor());
    const shm::FileDescriptor alone = std::move(lock);
    for (const auto& path : shm::segment_files(directory, instance)) {
        const std::string holder = held_by(path);
        if (holder.empty()) {
            // In the order of shm::remove_session_files().
            remove(shm::record_path(path), cleaned);
            remove(path, cleaned);
        } else {
            cleaned.kept.push_back({path, holder});
        }
    }
    const std::string plane = shm::plane_path(directory, instance);
    const std::string holder = held_by(plane);
    if (!holder.empty()) cleaned.kept.push_back({plane, holder});
    if (cleaned.kept.empty()) {
        remove(plane, cleaned);
        for (const std::string& path : shm::CaptureExchange::paths(directory, instance))
            remove(path, cleaned);
    }
    return cleaned;
}

}  // namespace croupier::tools
