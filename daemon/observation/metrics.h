// An instance's snapshot and its last minutes as Prometheus metrics.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "daemon/observation/recent_minutes.h"
#include "shm/snapshot.h"

namespace croupier::daemon {

std::vector<prometheus::MetricFamily> to_metrics(const shm::Snapshot& snapshot, const RecentMinutes& recent,
                                                 const JournalDigest& journal);

}  // namespace croupier::daemon
