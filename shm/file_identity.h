// Whether a path still names a file that is open. Another process may have removed the file, or its folder,
// and have put one of its own there.
#pragma once

#include <fcntl.h>

#include <string>

#include "shm/file.h"

namespace croupier::shm {

// `path` may be relative to the open folder `folder`. A link is not followed.
bool is_at(const FileDescriptor& file, const std::string& path, int folder = AT_FDCWD);

}  // namespace croupier::shm
