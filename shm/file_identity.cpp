#include "shm/file_identity.h"

#include <sys/stat.h>

namespace croupier::shm {

bool is_at(const FileDescriptor& file, const std::string& path, int folder) {
    struct stat ours {};
    struct stat present {};
    return ::fstat(file.get(), &ours) == 0 &&
           ::fstatat(folder, path.c_str(), &present, AT_SYMLINK_NOFOLLOW) == 0 &&
           ours.st_ino == present.st_ino && ours.st_dev == present.st_dev;
}

}  // namespace croupier::shm
