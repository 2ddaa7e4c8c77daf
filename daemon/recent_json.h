// /recent.json: what the page draws.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/recent_minutes.h"

namespace croupier::daemon {

// The seconds with numbers above `after`; `serving` is what /readyz says, in a word.
std::string recent_json(const RecentMinutes& recent, const JournalDigest& journal, std::uint64_t after,
                        const char* serving);

}  // namespace croupier::daemon
