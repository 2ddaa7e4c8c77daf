#include "event_log/standard_error.h"

#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>

namespace croupier::event_log {
namespace {

static_assert(kLongestLine <= PIPE_BUF);

bool write(std::string_view text) {
    while (!text.empty()) {
        pollfd item{STDERR_FILENO, POLLOUT, 0};
        // Anything else beside it: the other end is gone, and writing would be SIGPIPE.
        if (::poll(&item, 1, 0) != 1 || item.revents != POLLOUT) return false;
        // So much a pipe takes at once when it says that it takes anything.
        const auto written =
            ::write(STDERR_FILENO, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
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
