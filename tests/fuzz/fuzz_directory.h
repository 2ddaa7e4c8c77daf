// A directory of a fuzzer's own in shared memory: gone with the process, whatever ends it in order.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace croupier::testing {

class FuzzDirectory {
  public:
    FuzzDirectory() : path_("/dev/shm/croupier-fuzz-XXXXXX") {
        if (::mkdtemp(path_.data()) == nullptr) std::abort();
    }
    ~FuzzDirectory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    FuzzDirectory(const FuzzDirectory&) = delete;
    FuzzDirectory& operator=(const FuzzDirectory&) = delete;

    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

}  // namespace croupier::testing
