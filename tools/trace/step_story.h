// What samplers kept of some seconds, as a trace: sessions with their steps, samplers with their columns.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shm/column_journal.h"
#include "shm/snapshot.h"
#include "tools/trace/chrome_trace.h"

namespace croupier::tools {

struct TraceMaterial {
    std::vector<shm::JournalColumn> columns;
    std::vector<proto::StepRecord> steps;
    std::map<std::uint64_t, std::string> session_names;  // by id; those that nobody saw have none
    std::map<std::uint32_t, std::int32_t> cores;         // by sampler; -1: not pinned
};

ChromeTrace trace_of(const TraceMaterial& material);

}  // namespace croupier::tools
