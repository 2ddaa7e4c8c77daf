// How far a long reading has come, on standard error: silent for the first two seconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace croupier::tools {

class Progress {
  public:
    Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    ~Progress();

    // `bytes` is 0 when nobody knows how much there will be.
    void begin(const std::string& name, std::uint64_t bytes);
    void read(std::uint64_t bytes);

  private:
    using Clock = std::chrono::steady_clock;
    void say(Clock::time_point now);

    bool terminal_;
    bool said_ = false;
    Clock::time_point next_;
    std::string name_;
    std::uint64_t all_ = 0;
    std::uint64_t read_ = 0;
};

}  // namespace croupier::tools
