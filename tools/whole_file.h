// A file that is replaced atomically: if writing fails, the old file stays.
#pragma once

#include <fstream>
#include <initializer_list>
#include <string>

namespace croupier::tools {

class WholeFile {
  public:
    // All throw std::runtime_error with the path and the reason. Anything but a regular file, such as
    // /dev/stdout or a FIFO, is written directly.
    explicit WholeFile(std::string path);
    WholeFile(const WholeFile&) = delete;
    WholeFile& operator=(const WholeFile&) = delete;
    ~WholeFile();

    std::ostream& stream() { return stream_; }
    void commit();
    // From now on these signals end the process and delete the incomplete file. Ignored signals stay ignored.
    // A process can do this for one file.
    void delete_on_signals(std::initializer_list<int> signals) const;

  private:
    [[noreturn]] void fail() const;

    const std::string path_;  // as given
    std::string place_;       // with symbolic links resolved
    std::string written_;     // the temporary file; equals place_ if written directly
    std::ofstream stream_;
    bool is_pending_ = false;
};

}  // namespace croupier::tools
