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
    auto file = create_unnamed(directory, sizeof(PlaneHeader), {0600, ""});
    if (!file) return file.error();
    if (auto there = allocate(file.value(), sizeof(PlaneHeader), directory); !there) return there.error();
    auto mapping = map_file(file.value(), sizeof(PlaneHeader), Access::read_write, path);
    if (!mapping) return mapping.error();
    auto* header = new (mapping.value().get_address()) PlaneHeader{};
    header->magic = proto::kPlaneMagic;
    header->version = proto::kPlaneVersion;
    header->bytes = sizeof(PlaneHeader);
    std::strncpy(header->instance, instance.c_str(), sizeof(header->instance) - 1);
    header->daemon_pid = ::getpid();
    header->started_ns = monotonic_ns();
    Plane plane(std::move(file).value(), std::move(mapping).value());
    if (!plane.hold_daemon()) return fail(Errc::already_held, path + " is locked by another process");
    if (auto named = publish_name(plane.file_, path); !named) return named.error();
    return plane;
}

Result<Plane> Plane::attach(const std::string& directory, const std::string& instance, Access access) {
    auto opened = open_stamped(plane_path(directory, instance), access, kPlane);
    if (!opened) return opened.error();
    return Plane(std::move(opened.value().file), std::move(opened.value().mapping));
}

}  // namespace croupier::shm
