#include "shm/plane.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

#include "shm/clock.h"

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

Result<bool> allocate_plane(const FileDescriptor& file, std::uint64_t bytes, const std::string& directory) {
    auto allocated = allocate(file, bytes, directory);
    if (allocated || allocated.error().code != Errc::no_memory) return allocated;
    return fail(Errc::no_memory, allocated.error().message + ", or lower samplers.count: each thread of a " +
                                     "sampler keeps its last columns in " +
                                     std::to_string(sizeof(proto::JournalRing)) + " bytes there");
}

// Only its owner may open it, whatever shm.mode and shm.group say of segments.
bool is_forbidden(const std::string& path, Access access) {
    const int wanted = access == Access::read_only ? R_OK : R_OK | W_OK;
    return ::faccessat(AT_FDCWD, path.c_str(), wanted, AT_EACCESS) != 0 && errno == EACCES;
}

}  // namespace

std::string plane_path(const std::string& directory, const std::string& instance) {
    return directory + "/croupier-" + instance + ".plane";
}

Result<Plane> Plane::create(const std::string& directory, const std::string& instance, std::uint32_t samplers,
                            std::uint32_t threads_each) {
    const std::string path = plane_path(directory, instance);
    ::unlink(path.c_str());
    const std::uint64_t bytes = proto::plane_bytes(samplers, threads_each);
    CROUPIER_TRY_VALUE(file, create_unnamed(directory, bytes, {0600, ""}));
    CROUPIER_TRY(allocate_plane(file, bytes, directory));
    CROUPIER_TRY_VALUE(mapping, map_file(file, bytes, Access::read_write, path));
    // The journals behind it are empty as they are: zeros.
    auto* header = new (mapping.get_address()) PlaneHeader{};
    header->magic = proto::kPlaneMagic;
    header->version = proto::kPlaneVersion;
    header->bytes = sizeof(PlaneHeader);
    std::strncpy(header->instance, instance.c_str(), sizeof(header->instance) - 1);
    header->daemon_pid = ::getpid();
    header->sampler_count = samplers;
    header->threads_per_sampler = threads_each;
    header->started_ns = monotonic_ns();
    Plane plane(std::move(file), std::move(mapping));
    if (!plane.hold_daemon()) return fail(Errc::already_held, path + " is locked by another process");
    CROUPIER_TRY(publish_name(plane.file_, path));
    return plane;
}

Result<Plane> Plane::attach(const std::string& directory, const std::string& instance, Access access) {
    const std::string path = plane_path(directory, instance);
    if (is_forbidden(path, access))
        return fail(Errc::permission_denied,
                    "cannot open " + path + ": Permission denied; run as root or the daemon's user");
    CROUPIER_TRY_VALUE(opened, open_stamped(path, access, kPlane, FileSize::at_least));
    return checked(std::move(opened), path);
}

Result<Plane> Plane::attach(int descriptor, Access access) {
    const std::string path = path_of(descriptor);
    CROUPIER_TRY_VALUE(file, shm::open_again(descriptor, access));
    CROUPIER_TRY_VALUE(opened, map_stamped(std::move(file), path, access, kPlane, FileSize::at_least));
    return checked(std::move(opened), path);
}

Result<Plane> Plane::checked(StampedFile opened, const std::string& path) {
    const auto& header = *static_cast<const PlaneHeader*>(opened.mapping.get_address());
    const std::uint64_t bytes = proto::plane_bytes(header.sampler_count, header.threads_per_sampler);
    if (header.sampler_count > proto::kMaxSamplers || opened.mapping.get_size() != bytes) {
        return fail(Errc::wrong_size, path + " has " + std::to_string(opened.mapping.get_size()) +
                                          " bytes; with " + std::to_string(header.sampler_count) +
                                          " samplers of " + std::to_string(header.threads_per_sampler) +
                                          " threads it should have " + std::to_string(bytes));
    }
    return Plane(std::move(opened.file), std::move(opened.mapping));
}

std::span<proto::JournalRing> Plane::journals() const {
    auto* first = static_cast<std::byte*>(mapping_.get_address()) + sizeof(PlaneHeader);
    const std::size_t count = (mapping_.get_size() - sizeof(PlaneHeader)) / sizeof(proto::JournalRing);
    return {reinterpret_cast<proto::JournalRing*>(first), count};
}

}  // namespace croupier::shm
