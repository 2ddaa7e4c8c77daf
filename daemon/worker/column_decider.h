// One column from its schedule entry to its committed decision. Every word read from the segment may have
// been written by a mad process: it is copied once, checked, and only then used.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/worker/checked_step.h"
#include "daemon/worker/prepared_races.h"
#include "daemon/worker/session_view.h"
#include "sampler/decide.h"
#include "sampler/workspace.h"

namespace croupier::daemon {

// A thread of a sampler: its number in the sampler, and among all threads of all samplers.
struct Lane {
    std::size_t thread = 0;
    std::uint32_t number = 0;
};

// Whether a column may be claimed: the columns of its sequence in earlier steps are decided, or it is void;
// and what was asked for of its row is there.
bool is_due(const shm::Segment& segment, const CheckedStep& step, std::uint32_t column);

// bad_record when the record cannot be acted on at all.
proto::DecisionError check_record(const shm::Segment& segment, std::uint64_t step, CheckedStep& checked);

// Brings near what the decision of a column will touch besides its logits: while the logits are awaited,
// the lines that the scheduler wrote come over from its core.
void prefetch_column(const shm::Segment& segment, const CheckedStep& step, std::uint32_t column);

// Derives what the decision will ask of the sequence's log, where that is not known, and when the tokens of
// its race arrive: while the logits are awaited. Of a column that cannot be decided, nothing: its decision
// will say why.
void prepare_column(SessionView& session, const CheckedStep& step, std::uint32_t column, Lane lane,
                    PreparedRaces& races);

// Makes a column's decision of something like its row, for nothing but the caches: of a lean step, while its
// logits are awaited. What one needs is all over memory, and after some milliseconds far away.
void rehearse_column(SessionView& session, const CheckedStep& step, std::uint32_t column, Lane lane,
                     const PreparedRaces& races, sampler::Workspace& workspace);

struct DecidedColumn {
    // Its row was sent in part, and it asked for more; or the row was laid anew meanwhile. It is not decided.
    bool left = false;
    proto::Decision decision;
    std::uint32_t hot_choice = 0;  // of its sequence
    bool read_early = false;       // its row, while the last tiles were in flight
};

// Decides a claimed column and lays its token behind the sequence's log; the caller commits, or gives the
// claim back where the column is left.
DecidedColumn decide_column(SessionView& session, const CheckedStep& step, std::uint32_t column, Lane lane,
                            const PreparedRaces& races, sampler::Workspace& workspace);

}  // namespace croupier::daemon
