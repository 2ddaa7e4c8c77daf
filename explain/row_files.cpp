#include "explain/row_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "explain/fields.h"

namespace croupier::explain {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
    throw RequestError("row.file '" + path + "': " + why);
}

std::string reason() {
    return std::generic_category().message(errno);
}

}  // namespace

RowFiles::~RowFiles() {
    for (const auto& [path, mapping] : mappings_) unmap(mapping);
}

void RowFiles::unmap(const Mapping& mapping) {
    ::munmap(const_cast<std::byte*>(mapping.bytes), mapping.size);
    ::close(mapping.file);
}

RowFiles::Mapping RowFiles::map(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) refuse(path, reason());
    struct stat status {};
    if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) {
        ::close(file);
        refuse(path, "is empty or not a regular file; it should contain rows, one after another");
    }
    const auto size = static_cast<std::uint64_t>(status.st_size);
    void* bytes = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
    if (bytes == MAP_FAILED) {
        const std::string why = reason();
        ::close(file);
        refuse(path, why);
    }
    return {.file = file, .size = size, .bytes = static_cast<const std::byte*>(bytes)};
}

const RowFiles::Mapping& RowFiles::mapped(const std::string& path) {
    const auto found = mappings_.find(path);
    if (found != mappings_.end()) {
        // The file may have been replaced or truncated since; reading past its end would raise SIGBUS.
        struct stat now {};
        struct stat then {};
        const bool same = ::stat(path.c_str(), &now) == 0 && ::fstat(found->second.file, &then) == 0 &&
                          now.st_ino == then.st_ino && now.st_dev == then.st_dev &&
                          static_cast<std::uint64_t>(then.st_size) == found->second.size;
        if (same) return found->second;
        unmap(found->second);
        mappings_.erase(found);
    }
    return mappings_.emplace(path, map(path)).first->second;
}

std::span<const std::byte> RowFiles::row(const std::string& path, std::uint64_t row_bytes,
                                         std::uint64_t index) {
    const Mapping& mapping = mapped(path);
    if (mapping.size % row_bytes != 0) {
        refuse(path, "has " + std::to_string(mapping.size) +
                         " bytes, which is not a whole number of rows of " + std::to_string(row_bytes) +
                         "; check dtype and vocab");
    }
    const std::uint64_t rows = mapping.size / row_bytes;
    if (index >= rows) {
        refuse(path, "has " + std::to_string(rows) + " rows; row.index is " + std::to_string(index) +
                         "; allowed: 0 to " + std::to_string(rows - 1));
    }
    return {mapping.bytes + index * row_bytes, row_bytes};
}

}  // namespace croupier::explain
