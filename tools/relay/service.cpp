#include "tools/relay/service.h"

#include <systemd/sd-daemon.h>

#include <algorithm>
#include <memory>
#include <string>

namespace croupier::tools {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

class Watchdog {
  public:
    explicit Watchdog(microseconds longest_look) {
        std::uint64_t limit_us = 0;
        if (::sd_watchdog_enabled(0, &limit_us) <= 0) return;
        const microseconds limit = std::max(microseconds(limit_us), 2 * longest_look);
        if (limit.count() > static_cast<std::int64_t>(limit_us)) {
            ::sd_notify(0, ("WATCHDOG_USEC=" + std::to_string(limit.count())).c_str());
        }
        period_ = limit / 4;
    }

    void look() {
        if (period_.count() == 0 || Clock::now() - last_ < period_) return;
        ::sd_notify(0, "WATCHDOG=1");
        last_ = Clock::now();
    }

  private:
    microseconds period_{0};  // 0: there is none
    Clock::time_point last_;
};

}  // namespace

fan_out::RelayObserver service_observer(std::chrono::seconds longest_look) {
    auto watchdog = std::make_shared<Watchdog>(longest_look);
    return {[](const std::string& status) { ::sd_notify(0, ("READY=1\nSTATUS=" + status).c_str()); },
            [watchdog] { watchdog->look(); }};
}

void tell_service_manager_of_the_end() {
    ::sd_notify(0, "STOPPING=1");
}

}  // namespace croupier::tools
