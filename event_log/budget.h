// How many lines an event may have: a hundred at once, then ten a second. The rest is counted.
#pragma once

#include <array>
#include <chrono>
#include <vector>

#include "event_log/events.h"

namespace croupier::event_log {

// Enough to see what is wrong, too few to fill a disk: a line has some 300 bytes.
constexpr double kLinesAtOnce = 100;
constexpr double kLinesASecond = 10;

struct LeftOut {
    Event event;
    std::uint64_t lines;
};

class Budget {
  public:
    using Clock = std::chrono::steady_clock;

    bool admit(Event event, Clock::time_point now);
    // Of each event that has had a second to be counted.
    std::vector<LeftOut> take_left_out(Clock::time_point now);

  private:
    struct Kind {
        double lines = kLinesAtOnce;
        Clock::time_point filled;
        std::uint64_t left_out = 0;
        Clock::time_point first_left_out;
    };

    std::array<Kind, kEvents> kinds_;
    std::uint64_t left_out_ = 0;  // of all kinds
};

}  // namespace croupier::event_log
