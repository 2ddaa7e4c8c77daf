// A mapped file begins with a stamp: what it is, by which layout, how long. Whoever maps one looks at it
// before anything else.
#pragma once

#include <cstdint>
#include <string>

#include "shm/file.h"

namespace croupier::shm {

struct Stamp {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t bytes;
    bool operator==(const Stamp&) const = default;
};

// How a refusal tells the file's number from this build's.
struct Versus {
    const char* before;
    const char* between;
    const char* after;
};

struct StampedKind {
    const char* name;  // "bell"
    Stamp stamp;
    Versus version;
    Versus bytes;
    Errc wrong_bytes;
};

Result<bool> check_stamp(const Stamp& found, const StampedKind& kind, const std::string& path);

struct StampedFile {
    FileDescriptor file;
    Mapping mapping;
};
// `at_least`: behind the stamp's bytes stands more, of which the caller knows how much is right.
enum class FileSize { exactly, at_least };
Result<StampedFile> open_stamped(const std::string& path, Access access, const StampedKind& kind,
                                 FileSize expected = FileSize::exactly);
// `path`: how errors call it.
Result<StampedFile> map_stamped(FileDescriptor file, const std::string& path, Access access,
                                const StampedKind& kind, FileSize expected = FileSize::exactly);

}  // namespace croupier::shm
