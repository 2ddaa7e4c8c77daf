#include "event_log/budget.h"

#include <algorithm>

namespace croupier::event_log {

bool Budget::admit(Event event, Clock::time_point now) {
    Kind& kind = kinds_.at(static_cast<std::size_t>(event));
    const std::chrono::duration<double> since = now - kind.filled;
    kind.lines = std::min(kLinesAtOnce, kind.lines + since.count() * kLinesASecond);
    kind.filled = now;
    if (kind.lines >= 1) {
        kind.lines -= 1;
        return true;
    }
    if (kind.left_out++ == 0) kind.first_left_out = now;
    ++left_out_;
    return false;
}

std::vector<LeftOut> Budget::take_left_out(Clock::time_point now) {
    std::vector<LeftOut> taken;
    if (left_out_ == 0) return taken;
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
        Kind& kind = kinds_[i];
        if (kind.left_out == 0 || now - kind.first_left_out < std::chrono::seconds(1)) continue;
        taken.push_back({static_cast<Event>(i), kind.left_out});
        left_out_ -= kind.left_out;
        kind.left_out = 0;
    }
    return taken;
}

}  // namespace croupier::event_log
