// Whether a sequence has come to a column that it stands in. It may stand in several steps in flight, and in
// several columns of one step, a window: its columns are decided one after another, each at the position that
// the columns before it leave. Read by a process that trusts none of the words it reads.
#pragma once

#include <cstdint>

#include "shm/segment.h"

namespace croupier::shm {

enum class Due {
    now,       // every column before it is decided
    later,     // one is not
    never,     // void: what came before it ended the sequence, or the client has cut it off
    rejected,  // its row was computed from another token than was decided before it
    broken     // the record contradicts itself
};

struct DueColumn {
    Due due = Due::broken;
    std::uint32_t outputs = 0;  // now: of the sequence, before this column
};

// Of a column of a step in flight, `asked`, whose slot in the sequence table exists.
DueColumn due_of(const Segment& segment, std::uint64_t step, std::uint32_t column,
                 const proto::ScheduleColumn& asked);

// Whether the head of the window of `asked`, whose row is there, has a row at all, and was fed the last of so
// many outputs as far as the engine says what it was fed.
bool was_fed(const Segment& segment, std::uint64_t step, std::uint32_t head,
             const proto::ScheduleColumn& asked, std::uint32_t outputs);

}  // namespace croupier::shm
