#include "shm/stamped_file.h"

#include <unistd.h>

#include <cstring>
#include <optional>
#include <utility>

namespace croupier::shm {
namespace {

std::string tell(const Versus& words, std::uint64_t theirs, std::uint64_t ours) {
    return words.before + std::to_string(theirs) + words.between + std::to_string(ours) + words.after;
}

// nullopt: it is no file of this kind.
std::optional<std::uint32_t> version_of(const FileDescriptor& file, const StampedKind& kind) {
    Stamp found{};
    if (::pread(file.get(), &found, sizeof(found), 0) != sizeof(found)) return std::nullopt;
    if (found.magic != kind.stamp.magic) return std::nullopt;
    return found.version;
}

}  // namespace

Result<bool> check_stamp(const Stamp& found, const StampedKind& kind, const std::string& path) {
    const Stamp& ours = kind.stamp;
    if (found.magic != ours.magic) {
        return fail(Errc::bad_magic, path + " is not a croupier " + kind.name + ": its magic is " +
                                         std::to_string(found.magic) + ", it should be " +
                                         std::to_string(ours.magic));
    }
    if (found.version != ours.version)
        return fail(Errc::wrong_version, path + tell(kind.version, found.version, ours.version));
    if (found.bytes != ours.bytes)
        return fail(kind.wrong_bytes, path + tell(kind.bytes, found.bytes, ours.bytes));
    return true;
}

Result<StampedFile> open_stamped(const std::string& path, Access access, const StampedKind& kind,
                                 FileSize expected) {
    CROUPIER_TRY_VALUE(file, open_file(path, access));
    return map_stamped(std::move(file), path, access, kind, expected);
}

Result<StampedFile> map_stamped(FileDescriptor file, const std::string& path, Access access,
                                const StampedKind& kind, FileSize expected) {
    CROUPIER_TRY_VALUE(size, file_size(file, path));
    if (size < kind.stamp.bytes || (expected == FileSize::exactly && size > kind.stamp.bytes)) {
        // Another version is mostly of another size, and says more.
        if (const auto version = version_of(file, kind); version && *version != kind.stamp.version)
            return fail(Errc::wrong_version, path + tell(kind.version, *version, kind.stamp.version));
        const Versus words{" has ", kind.bytes.between, kind.bytes.after};
        return fail(Errc::wrong_size, path + tell(words, size, kind.stamp.bytes));
    }
    CROUPIER_TRY_VALUE(mapping, map_file(file, size, access, path));
    Stamp found{};
    std::memcpy(&found, mapping.get_address(), sizeof(found));
    CROUPIER_TRY(check_stamp(found, kind, path));
    return StampedFile{std::move(file), std::move(mapping)};
}

}  // namespace croupier::shm
