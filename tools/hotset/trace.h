// Counts how often each id of a model occurs in a token trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command_line/progress.h"

namespace croupier::tools {

struct TracedModel {
    std::string name;
    std::uint32_t vocab = 0;
};

// Reads int32 ids (.i32), JSON lines (.jsonl), a hotness file, or JSON lines from standard input ("-").
// Throws RequestError if the trace does not fit the model.
std::vector<double> count_trace(const std::string& path, const TracedModel& model,
                                command_line::Progress& progress);

}  // namespace croupier::tools
