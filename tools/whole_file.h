// A file that is written whole or not at all: whoever fails before its end leaves what was there before.
#pragma once

#include <fstream>
#include <initializer_list>
#include <string>

namespace croupier::tools {

class WholeFile {
  public:
    // All throw std::runtime_error with the path and why. What is no regular file, such as /dev/stdout or a
    // FIFO, is written to directly.
    explicit WholeFile(std::string path);
    WholeFile(const WholeFile&) = delete;
    WholeFile& operator=(const WholeFile&) = delete;
    ~WholeFile();

    std::ostream& stream() { return stream_; }
    void put_in_place();
    // These signals, where they are not ignored, end the process at once, as they do by default, and take
    // with them what is half-written. For one file of the process.
    void goes_with(std::initializer_list<int> signals) const;

  private:
    [[noreturn]] void fail() const;

    const std::string path_;  // as it was given
    std::string place_;       // behind links
    std::string written_;     // equal to place_: directly
    std::ofstream stream_;
    bool is_pending_ = false;
};

}  // namespace croupier::tools
