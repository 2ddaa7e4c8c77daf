// What the metrics port tells: its table of routes, and what it keeps of each second.
#pragma once

#include <chrono>
#include <string>

#include "daemon/observation/health.h"
#include "daemon/observation/http_message.h"
#include "daemon/observation/journal_digest.h"
#include "daemon/observation/recent_json.h"
#include "daemon/observation/recent_minutes.h"

namespace croupier::daemon {

// Used by the server's thread alone.
class ObservationSite {
  public:
    ObservationSite(std::string shm_directory, std::string instance, const shm::Plane& plane,
                    const Health& health);

    // They refer to this object.
    HttpRoutes routes();
    // Often: samplers write over their journals. Once a second it closes a second.
    void observe();

  private:
    HttpReply metrics() const;
    HttpReply livez() const;
    HttpReply readyz() const;
    HttpReply snapshot() const;
    HttpReply recent(const HttpRequest& request) const;

    std::string shm_directory_;
    std::string instance_;
    const shm::Plane* plane_;
    const Health* health_;
    JournalDigest journal_;
    RecentMinutes recent_;
    RecentJson recent_json_;
    std::chrono::steady_clock::time_point second_ends_;
};

}  // namespace croupier::daemon
