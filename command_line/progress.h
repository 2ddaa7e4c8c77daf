// Reports the progress of long work on standard error, from the third second on.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace croupier::command_line {

class Progress {
  public:
    // `shown`: name of the displayed unit; `units`: how many counted units make one displayed unit.
    Progress(std::string shown, std::uint64_t units);
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    ~Progress();

    // `all` is 0 if the total is unknown.
    void begin(const std::string& what, std::uint64_t all);
    void advance(std::uint64_t units);

  private:
    using Clock = std::chrono::steady_clock;
    void print(Clock::time_point now);
    std::uint64_t shown_of(std::uint64_t units) const { return units / units_; }

    const std::string shown_;
    const std::uint64_t units_;
    bool terminal_;
    bool printed_ = false;
    Clock::time_point next_;
    std::string what_;
    std::uint64_t all_ = 0;
    std::uint64_t done_ = 0;
};

}  // namespace croupier::command_line
