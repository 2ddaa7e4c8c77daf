#include "shm/plane.h"

#include <unistd.h>

#include <cstring>
#include <new>
#include <utility>

#include "shm/clock.h"

namespace croupier::shm {

using proto::PlaneHeader;

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
    const std::string path = plane_path(directory, instance);
    auto file = open_file(path, access);
    if (!file) return file.error();
    auto size = file_size(file.value(), path);
    if (!size) return size.error();
    if (size.value() != sizeof(PlaneHeader)) {
        return fail(Errc::wrong_size, path + " has " + std::to_string(size.value()) +
                                          " bytes, this build expects " +
                                          std::to_string(sizeof(PlaneHeader)));
    }
    auto mapping = map_file(file.value(), sizeof(PlaneHeader), access, path);
    if (!mapping) return mapping.error();
    const auto& header = *static_cast<const PlaneHeader*>(mapping.value().get_address());
    if (header.magic != proto::kPlaneMagic) return fail(Errc::bad_magic, path + " is not a croupier plane");
    if (header.version != proto::kPlaneVersion) {
        return fail(Errc::wrong_version, path + " has version " + std::to_string(header.version) +
                                             ", this build speaks " + std::to_string(proto::kPlaneVersion));
    }
    if (header.bytes != sizeof(PlaneHeader)) {
        return fail(Errc::corrupt_header, path + " says that it has " + std::to_string(header.bytes) +
                                              " bytes, this build expects " +
                                              std::to_string(sizeof(PlaneHeader)));
    }
    return Plane(std::move(file).value(), std::move(mapping).value());
}

}  // namespace croupier::shm
