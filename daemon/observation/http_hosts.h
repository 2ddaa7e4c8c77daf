// The names under which the metrics port answers. A browser sends the name that its page came from, so a page
// of another site whose owner lets that site's name resolve to this host (DNS rebinding) is told from ours.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/observation/http_message.h"

namespace croupier::daemon {

class HttpHosts {
  public:
    // The host part of `listen`, this machine's own name and `configured`, beside what is always allowed: IP
    // addresses and localhost.
    HttpHosts(std::string_view listen, const std::vector<std::string>& configured);

    // Nothing: the request names one of them. `request` ends with its blank line.
    std::optional<HttpReply> refusal(std::string_view request) const;

  private:
    bool allows(std::string_view host) const;

    std::string own_name_;
    std::vector<std::string> names_;  // in lower case, without a dot at the end
};

}  // namespace croupier::daemon
