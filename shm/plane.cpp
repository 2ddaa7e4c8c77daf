#include "shm/plane.h"

#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

#include "shm/clock.h"
#include "shm/stamped_file.h"

namespace croupier::shm {

using proto::PlaneHeader;

namespace {

constexpr StampedKind kPlane{"plane",
                             {proto::kPlaneMagic, proto::kPlaneVersion, sizeof(PlaneHeader)},
                             {" has version ", ", this build speaks ", ""},
                             {" says that it has ", " bytes, this build expects ", ""},
                             Errc::corrupt_header};
static_assert(offsetof(PlaneHeader, magic) == offsetof(Stamp, magic) &&
              offsetof(PlaneHeader, version) == offsetof(Stamp, version) &&
              offsetof(PlaneHeader, bytes) == offsetof(Stamp, bytes));

}  // namespace

std::string plane_path(const std::string& directory, const std::string& instance) {
    return directory + "/croupier-" + instance + ".plane";
}

Result<Plane> Plane::create(const std::string& directory, const std::string& instance) {
    const std::string path = plane_path(directory, instance);
    ::unlink(path.c_str());
    CROUPIER_TRY_VALUE(file, create_unnamed(directory, sizeof(PlaneHeader), {0600, ""}));
    CROUPIER_TRY(allocate(file, sizeof(PlaneHeader), directory));
    CROUPIER_TRY_VALUE(mapping, map_file(file, sizeof(PlaneHeader), Access::read_write, path));
    auto* header = new (mapping.get_address()) PlaneHeader{};
    header->magic = proto::kPlaneMagic;
    header->version = proto::kPlaneVersion;
    header->bytes = sizeof(PlaneHeader);
    std::strncpy(header->instance, instance.c_str(), sizeof(header->instance) - 1);
    header->daemon_pid = ::getpid();
    header->started_ns = monotonic_ns();
    Plane plane(std::move(file), std::move(mapping));
    if (!plane.hold_daemon()) return fail(Errc::already_held, path + " is locked by another process");
    CROUPIER_TRY(publish_name(plane.file_, path));
    return plane;
}

Result<Plane> Plane::attach(const std::string& directory, const std::string& instance, Access access) {
    CROUPIER_TRY_VALUE(opened, open_stamped(plane_path(directory, instance), access, kPlane));
    return Plane(std::move(opened.file), std::move(opened.mapping));
}

}  // namespace croupier::shm
