// Token traces: how often each id of a model occurs in one.
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

// A file of int32 (.i32), of JSON lines (.jsonl), or another hotness file; "-" stands for JSON lines on
// standard input. Throws RequestError for a trace that does not fit the model.
std::vector<double> count_trace(const std::string& path, const TracedModel& model,
                                command_line::Progress& progress);

}  // namespace croupier::tools
