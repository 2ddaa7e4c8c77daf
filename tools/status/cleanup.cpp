#include "tools/status/cleanup.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "shm/bell.h"
#include "shm/plane.h"
#include "shm/segment.h"
#include "shm/session_record.h"
#include "shm/snapshot.h"

namespace croupier::tools {
namespace {

void remove(const std::string& path, Cleaned& cleaned) {
    if (::unlink(path.c_str()) == 0) {
        cleaned.removed.push_back(path);
    } else if (errno != ENOENT) {
        cleaned.kept.push_back(shm::system_failure("cannot remove", path, errno).message);
    }
}

bool somebody_holds(const shm::Segment& segment) {
    if (segment.is_held(shm::Role::daemon) || segment.is_held(shm::Role::client)) return true;
    for (std::uint32_t rank = 0; rank < segment.geometry().tp; ++rank) {
        if (segment.is_held(shm::writer_role(rank))) return true;
    }
    return false;
}

}  // namespace

shm::Result<Cleaned> clean_up(const std::string& directory, const std::string& instance) {
    Cleaned cleaned;
    auto plane = shm::Plane::attach(directory, instance, shm::Access::read_only);
    if (plane && plane.value().daemon_alive()) {
        return shm::fail(shm::Errc::already_held, "instance " + instance +
                                                      " is served by the live daemon with pid " +
                                                      std::to_string(plane.value().header().daemon_pid) +
                                                      ", which cleans up for itself");
    }
    for (const auto& path : shm::segment_files(directory, instance)) {
        auto segment = shm::Segment::attach(path, shm::Access::read_only);
        if (segment && somebody_holds(segment.value())) {
            cleaned.kept.push_back(path + ": a live process holds it");
        } else if (!segment && segment.error().code == shm::Errc::permission_denied) {
            cleaned.kept.push_back(segment.error().message);
        } else {
            remove(path, cleaned);
            remove(shm::record_path(path), cleaned);
        }
    }
    // Clients that live keep ringing the bell: it stays as long as one of them has a segment.
    if (cleaned.kept.empty()) {
        remove(shm::plane_path(directory, instance), cleaned);
        remove(shm::bell_path(directory, instance), cleaned);
    }
    return cleaned;
}

}  // namespace croupier::tools
