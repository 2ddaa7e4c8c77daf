// /recent.json: what the page draws.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "daemon/observation/recent_minutes.h"

namespace croupier::daemon {

// Each second is written down once, however many ask: a probe must not wait for who reads fifteen minutes.
class RecentJson {
  public:
    // The next one; it keeps kSecondsKept.
    void add(const Second& second);
    // The seconds with numbers above `after`; `serving` is what /readyz says, in a word.
    std::string answer(const RecentMinutes& recent, const JournalDigest& journal, std::uint64_t after,
                       const char* serving) const;

  private:
    struct Written {
        std::uint64_t number = 0;
        std::string json;
    };

    std::deque<Written> seconds_;  // 64 sessions make 13 MB of it
};

}  // namespace croupier::daemon
