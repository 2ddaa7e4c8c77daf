// Lines that a peer can cause: so many a second and no more, then how many were left out.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace croupier::daemon {

class LogBudget {
  public:
    void warn(const std::string& line);

  private:
    using Clock = std::chrono::steady_clock;

    std::mutex mutex_;
    Clock::time_point second_began_;
    std::uint32_t written_ = 0;
    std::uint64_t left_out_ = 0;
};

}  // namespace croupier::daemon
