#include "shm/session_record.h"

#include <unistd.h>

#include <array>
#include <cerrno>

#include "shm/file.h"

namespace croupier::shm {
namespace {

// A name has at most 63 bytes, an owner is a uid or a key of 40 characters.
constexpr std::size_t kMostBytes = 256;

}  // namespace

std::string record_path(const std::string& segment_path) {
    return segment_path + ".owner";
}

Result<bool> write_record(const std::string& segment_path, const SessionRecord& record) {
    const std::string path = record_path(segment_path);
    const std::string text = record.name + "\n" + record.owner + "\n";
    CROUPIER_TRY_VALUE(file, create_unnamed(path.substr(0, path.rfind('/')), text.size(), {0600, ""}));
    if (::pwrite(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
        return system_failure("cannot write", path, errno);
    }
    return publish_name(file, path);
}

Result<SessionRecord> read_record(const std::string& segment_path) {
    const std::string path = record_path(segment_path);
    CROUPIER_TRY_VALUE(file, open_file(path, Access::read_only));
    std::array<char, kMostBytes> buffer{};
    const auto length = ::pread(file.get(), buffer.data(), buffer.size(), 0);
    const std::string text(buffer.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
    const auto name = text.find('\n');
    const auto owner = name == std::string::npos ? name : text.find('\n', name + 1);
    if (owner == std::string::npos || owner + 1 != text.size()) {
        return fail(Errc::corrupt_header, path + " should hold a session's name and its owner, a line each");
    }
    return SessionRecord{text.substr(0, name), text.substr(name + 1, owner - name - 1)};
}

void remove_session_files(const std::string& segment_path) {
    // In this order: who dies in between leaves a segment of nobody, which the next daemon removes.
    ::unlink(record_path(segment_path).c_str());
    ::unlink(segment_path.c_str());
}

}  // namespace croupier::shm
