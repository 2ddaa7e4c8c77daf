// Whether a sequence has come to a column that it stands in: it may stand in several steps in flight, and its
// columns are decided one after another. Read by a process that trusts none of the words it reads.
#pragma once

#include <cstdint>

#include "shm/segment.h"

namespace croupier::shm {

enum class Due {
    now,    // every column before it is decided
    later,  // one is not
    never,  // void: what came before it ended the sequence, or the client has cut it off
    broken  // the record contradicts itself
};

struct DueColumn {
    Due due = Due::broken;
    std::uint32_t outputs = 0;  // now: of the sequence, before this column
};

// Of a column of a step in flight, whose slot in the sequence table exists.
DueColumn due_of(const Segment& segment, std::uint64_t step, const proto::ScheduleColumn& asked);

}  // namespace croupier::shm
