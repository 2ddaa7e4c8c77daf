#include "tools/whole_file.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

namespace croupier::tools {

namespace fs = std::filesystem;

namespace {

// Path of the incomplete file, or empty. The signal handler reads it.
char half_written[PATH_MAX];

void delete_and_end(int signal) {
    if (half_written[0] != '\0') (void)::unlink(half_written);
    // SA_RESETHAND restored the default action, which ends the process once this handler returns.
    (void)::raise(signal);
}

// Creates a new file beside `place` and returns its name, or "" on failure. Never reuses an existing name:
// that file belongs to someone else and may be a link or a FIFO.
std::string new_file_beside(const std::string& place) {
    constexpr int kMostTries = 1000;
    for (int i = 0; i < kMostTries; ++i) {
        std::string name = place + ".new" + (i == 0 ? "" : std::to_string(i));
        const int file = ::open(name.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, 0666);
        if (file >= 0) (void)::close(file);
        if (file >= 0) return name;
        if (errno != EEXIST) return "";
    }
    return "";
}

}  // namespace

WholeFile::WholeFile(std::string path) : path_(std::move(path)), place_(path_) {
    std::error_code unknown;
    const fs::file_status there = fs::status(path_, unknown);
    const bool is_replaced = !fs::exists(there) || fs::is_regular_file(there);
    if (is_replaced && fs::is_symlink(path_, unknown)) place_ = fs::weakly_canonical(path_).string();
    written_ = is_replaced ? new_file_beside(place_) : place_;
    if (written_.empty()) fail();
    is_pending_ = is_replaced;
    stream_.open(written_, std::ios::binary);
    if (!stream_) {
        const int why = errno;
        if (is_pending_) (void)std::remove(written_.c_str());
        errno = why;
        fail();
    }
}

WholeFile::~WholeFile() {
    half_written[0] = '\0';
    if (is_pending_) (void)std::remove(written_.c_str());
}

void WholeFile::commit() {
    stream_.close();
    if (!stream_ || (is_pending_ && std::rename(written_.c_str(), place_.c_str()) != 0)) fail();
    is_pending_ = false;
    half_written[0] = '\0';
}

void WholeFile::delete_on_signals(std::initializer_list<int> signals) const {
    if (is_pending_ && written_.size() < sizeof(half_written))
        std::memcpy(half_written, written_.c_str(), written_.size() + 1);
    struct sigaction action {};
    action.sa_handler = delete_and_end;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    for (const int signal : signals) {
        struct sigaction before {};
        (void)::sigaction(signal, nullptr, &before);
        // nohup, for example, ignores SIGHUP.
        if (before.sa_handler != SIG_IGN) (void)::sigaction(signal, &action, nullptr);
    }
}

void WholeFile::fail() const {
    throw std::runtime_error("cannot write " + path_ + ": " + std::strerror(errno));
}

}  // namespace croupier::tools
