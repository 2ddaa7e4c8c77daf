#include "daemon/log_budget.h"

#include <spdlog/spdlog.h>

namespace croupier::daemon {
namespace {

// Enough to see what is wrong, too few to fill a disk: a line has some 200 bytes.
constexpr std::uint32_t kLinesASecond = 10;

}  // namespace

void LogBudget::warn(const std::string& line) {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    if (now - second_began_ >= std::chrono::seconds(1)) {
        if (left_out_ != 0) spdlog::warn("{} more lines like the last were left out", left_out_);
        second_began_ = now;
        written_ = 0;
        left_out_ = 0;
    }
    if (written_ >= kLinesASecond) {
        ++left_out_;
        return;
    }
    ++written_;
    spdlog::warn("{}", line);
}

}  // namespace croupier::daemon
