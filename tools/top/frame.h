// A view as lines of text: printable ASCII alone, whatever names other processes have chosen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/top/account.h"

namespace croupier::tools {

struct FrameLine {
    std::string text;
    bool heading = false;
};

struct FrameSize {
    std::size_t columns = 80;
    std::size_t rows = 0;  // 0: as many as there are; no screen, and so no keys
};

// No line is longer than `columns`: one that is cut ends with ~. Nor are there more than `rows`: what is left
// out is counted. Columns that took less than `slow_ns` are not shown.
std::vector<FrameLine> frame_of(const View& view, const FrameSize& size, std::uint64_t slow_ns);
// What keys do and columns mean.
std::vector<FrameLine> help_frame(const FrameSize& size);

// For `croupier stat`: a heading, and below it a line for each interval.
std::string stat_heading();
std::string stat_line(const View& view);

}  // namespace croupier::tools
