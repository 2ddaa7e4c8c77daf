// What a run came to, for people.
#pragma once

#include <cstdint>
#include <string>

#include "sim/report.h"

namespace croupier::sim {

// 9102 is "9,102".
std::string with_commas(std::uint64_t number);

// Why a run that is not sound failed, the worst first; without zeros.
std::string failure_text(const Report& report);
// One line.
std::string interruption_text(const Report& report);
std::string to_text(const Report& report, const World& world);
// Commands that somebody who has seen the demo may like to run.
std::string next_commands();

}  // namespace croupier::sim
