// The report of a run as text.
#pragma once

#include <cstdint>
#include <string>

#include "sim/report.h"

namespace croupier::sim {

// Formats 9102 as "9,102".
std::string with_commas(std::uint64_t number);

// Why the run failed: the worst reason first, zero counts omitted.
std::string failure_text(const Report& report);
// One line.
std::string interruption_text(const Report& report);
std::string to_text(const Report& report, const World& world);
// Commands to try after the demo.
std::string next_commands();

}  // namespace croupier::sim
