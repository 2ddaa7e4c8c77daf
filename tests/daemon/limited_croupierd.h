// A croupierd that a shell starts behind a command of its own, such as one that lowers a limit.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace croupier::testing {

class LimitedCroupierd {
  public:
    explicit LimitedCroupierd(const std::string& command) {
        folder_ = (std::filesystem::temp_directory_path() / "croupier-limited-XXXXXX").string();
        if (::mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("cannot make " + folder_);
        std::ofstream(path()) << "#!/bin/sh\n" << command << "\nexec " CROUPIERD_PATH " \"$@\"\n";
        ::chmod(path().c_str(), 0755);
    }
    ~LimitedCroupierd() { std::filesystem::remove_all(folder_); }
    LimitedCroupierd(const LimitedCroupierd&) = delete;
    LimitedCroupierd& operator=(const LimitedCroupierd&) = delete;

    // As the program of a DaemonProcess.
    std::string path() const { return folder_ + "/croupierd"; }

  private:
    std::string folder_;
};

}  // namespace croupier::testing
