// An instance's snapshot as Prometheus metrics.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "shm/snapshot.h"

namespace croupier::daemon {

std::vector<prometheus::MetricFamily> to_metrics(const shm::Snapshot& snapshot);

}  // namespace croupier::daemon
