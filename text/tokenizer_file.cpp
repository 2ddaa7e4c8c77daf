#include "text/tokenizer_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "text/text_error.h"

namespace croupier::text {
namespace {

// The largest tokenizers in use have tens of megabytes.
constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;

class OpenFile {
  public:
    explicit OpenFile(const std::string& path)
        : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
    ~OpenFile() {
        if (file_ >= 0) ::close(file_);
    }
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;

    std::string read() const {
        struct stat status {};
        if (file_ < 0 || ::fstat(file_, &status) != 0)
            throw TextError(std::generic_category().message(errno));
        if (!S_ISREG(status.st_mode)) throw TextError("is not a regular file");
        if (status.st_size > kMostBytes) {
            throw TextError("has " + std::to_string(status.st_size) + " bytes; allowed: up to " +
                            std::to_string(kMostBytes));
        }
        std::string text(static_cast<std::size_t>(status.st_size), '\0');
        std::size_t done = 0;
        while (done < text.size()) {
            const auto got = ::read(file_, text.data() + done, text.size() - done);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) throw TextError(std::generic_category().message(errno));
            if (got == 0) break;  // it was truncated meanwhile
            done += static_cast<std::size_t>(got);
        }
        text.resize(done);
        return text;
    }

  private:
    int file_;
};

}  // namespace

std::string read_tokenizer_file(const std::string& path) {
    return OpenFile(path).read();
}

}  // namespace croupier::text
