// Prometheus metrics of `croupier relay`.
#pragma once

#include <memory>
#include <string>

#include "fan_out/relay.h"

namespace prometheus {
class Exposer;
class Collectable;
}  // namespace prometheus

namespace croupier::tools {

class RelayMetrics {
  public:
    // Serves http://<listen>/metrics. `relay` must outlive this. Throws std::runtime_error if it cannot
    // listen there.
    RelayMetrics(const std::string& listen, const fan_out::Relay& relay);
    RelayMetrics(const RelayMetrics&) = delete;
    RelayMetrics& operator=(const RelayMetrics&) = delete;
    ~RelayMetrics();

  private:
    std::shared_ptr<prometheus::Collectable> counts_;
    std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace croupier::tools
