// A view as lines of text: printable ASCII alone, whatever names other processes have chosen.
#pragma once

#include <cstddef>
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
    std::size_t rows = 0;  // 0: as many as there are
};

// No line is longer than `columns`, nor are there more than `rows`: what is left out is counted.
std::vector<FrameLine> frame_of(const View& view, const FrameSize& size);

}  // namespace croupier::tools
