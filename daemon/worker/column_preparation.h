// What a sampler does for a column before its logits are there.
#pragma once

#include <cstdint>

#include "daemon/worker/checked_step.h"
#include "daemon/worker/lane.h"
#include "daemon/worker/prepared_races.h"
#include "daemon/worker/session_view.h"
#include "sampler/workspace.h"

namespace croupier::daemon {

// Brings near what the decision of a column will touch besides its logits: while the logits are awaited,
// the lines that the scheduler wrote come over from its core.
void prefetch_column(const shm::Segment& segment, const CheckedStep& step, std::uint32_t column);

// Whether what the decision will ask of the sequence's log takes longer to derive than others should wait.
bool has_long_history(SessionView& session, const CheckedStep& step, std::uint32_t column, Lane lane);
// Derives a part of that. False: there is more.
bool follow_history(SessionView& session, const CheckedStep& step, std::uint32_t column, Lane lane);

// As follow_history(); then finds out when the tokens of the column's race arrive. Of a column that cannot be
// decided, nothing: its decision will say why. False: there is more to do.
bool prepare_column(SessionView& session, const CheckedStep& step, std::uint32_t column, Lane lane,
                    PreparedRaces& races);

// Makes a column's decision of something like its row, for nothing but the caches: of a lean step, while its
// logits are awaited. What one needs is all over memory, and after some milliseconds far away.
void rehearse_column(SessionView& session, const CheckedStep& step, std::uint32_t column, Lane lane,
                     const PreparedRaces& races, sampler::Workspace& workspace);

}  // namespace croupier::daemon
