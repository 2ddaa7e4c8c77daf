#include "event_log/standard_error.h"

#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>

namespace croupier::event_log {
namespace {

static_assert(kLongestLine <= PIPE_BUF);

// Without waiting, also where other processes with the same standard error have filled it since it was
// asked. What knows no such way, as a terminal and a file, was asked before.
ssize_t write_now(const char* text, std::size_t bytes) {
    iovec part{const_cast<char*>(text), bytes};
    const auto written = ::pwritev2(STDERR_FILENO, &part, 1, -1, RWF_NOWAIT);
    return written < 0 && errno == EOPNOTSUPP ? ::write(STDERR_FILENO, text, bytes) : written;
}

bool write(std::string_view text) {
    while (!text.empty()) {
        pollfd item{STDERR_FILENO, POLLOUT, 0};
        // Anything else beside it: the other end is gone.
        if (::poll(&item, 1, 0) != 1 || item.revents != POLLOUT) return false;
        // So much a pipe takes at once when it says that it takes anything.
        const auto written = write_now(text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
        if (written <= 0) return false;
        text.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

}  // namespace

void StandardError::sink_it_(const spdlog::details::log_msg& message) {
    const std::string_view line(message.payload.data(), message.payload.size());
    if (lost_ != 0) {
        const std::string said = fmt::format("{} lines were lost: standard error took no more", lost_);
        const std::array<Field, 1> fields = {{{"lines", lost_}}};
        if (!write(line_of({Event::lines_lost, said, fields, message.time, ::getpid()}, current_format()))) {
            ++lost_;
            return;
        }
        lost_ = 0;
    }
    if (!write(line)) ++lost_;
}

bool journal_listens() {
    const char* stream = std::getenv("JOURNAL_STREAM");
    struct stat ours {};
    return stream != nullptr && ::fstat(STDERR_FILENO, &ours) == 0 &&
           fmt::format("{}:{}", ours.st_dev, ours.st_ino) == stream;
}

}  // namespace croupier::event_log
