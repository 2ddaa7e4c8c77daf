// A schedule record as this process believes it: copied and checked.
#pragma once

#include <cstdint>

namespace croupier::daemon {

struct CheckedStep {
    std::uint64_t step = 0;
    std::uint32_t slot = 0;
    std::uint32_t columns = 0;
    std::uint32_t revisions = 0;  // of the session's sequences when it was published
    std::uint64_t published_ns = 0;
    std::uint64_t before_taken_ns = 0;
    bool randoms_supplied = false;
    bool follows = false;  // some of its columns may have to wait for those of earlier steps
    bool windows = false;  // or for those of this one
};

}  // namespace croupier::daemon
