// An instance's snapshot and its last minutes as Prometheus metrics.
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

#include "daemon/observation/recent_minutes.h"
#include "shm/snapshot.h"

namespace croupier::daemon {

std::vector<prometheus::MetricFamily> to_metrics(const shm::Snapshot& snapshot, const RecentMinutes& recent,
                                                 const JournalDigest& journal);

// The file system of shm.dir. A tmpfs without a limit (size=0) and a hugetlbfs without one bring no sample.
void add_shared_memory(std::vector<prometheus::MetricFamily>& families, const std::string& directory);

}  // namespace croupier::daemon
