// One column from its schedule entry to its committed decision. Every word read from the segment may have
// been written by a mad process: it is copied once, checked, and only then used.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/worker/checked_step.h"
#include "daemon/worker/lane.h"
#include "daemon/worker/prepared_races.h"
#include "daemon/worker/session_view.h"
#include "sampler/decide.h"
#include "sampler/workspace.h"

namespace croupier::daemon {

// Whether a column may be claimed: the columns of its sequence in earlier steps are decided, or it is void;
// and what was asked for of its row is there.
bool is_due(const shm::Segment& segment, const CheckedStep& step, std::uint32_t column);

// bad_record when the record cannot be acted on at all.
proto::DecisionError check_record(const shm::Segment& segment, std::uint64_t step, CheckedStep& checked);

struct DecidedColumn {
    // It is not decided: its row was sent in part, and it asked for more; or the row was laid anew meanwhile.
    bool deferred = false;
    proto::Decision decision;
    std::uint32_t hot_choice = 0;  // of its sequence
    bool read_early = false;       // its row, while the last tiles were in flight
};

// Decides a claimed column and lays its token behind the sequence's log; the caller commits, or gives the
// claim back where the column is deferred.
DecidedColumn decide_column(SessionView& session, const CheckedStep& step, std::uint32_t column, Lane lane,
                            const PreparedRaces& races, sampler::Workspace& workspace);

}  // namespace croupier::daemon
