#include "shm/stamped_file.h"

#include <cstring>
#include <utility>

namespace croupier::shm {
namespace {

std::string tell(const Versus& words, std::uint64_t theirs, std::uint64_t ours) {
    return words.before + std::to_string(theirs) + words.between + std::to_string(ours) + words.after;
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

Result<StampedFile> open_stamped(const std::string& path, Access access, const StampedKind& kind) {
    auto file = open_file(path, access);
    if (!file) return file.error();
    auto size = file_size(file.value(), path);
    if (!size) return size.error();
    if (size.value() != kind.stamp.bytes) {
        const Versus words{" has ", kind.bytes.between, kind.bytes.after};
        return fail(Errc::wrong_size, path + tell(words, size.value(), kind.stamp.bytes));
    }
    auto mapping = map_file(file.value(), size.value(), access, path);
    if (!mapping) return mapping.error();
    Stamp found{};
    std::memcpy(&found, mapping.value().get_address(), sizeof(found));
    if (auto sound = check_stamp(found, kind, path); !sound) return sound.error();
    return StampedFile{std::move(file).value(), std::move(mapping).value()};
}

}  // namespace croupier::shm
