// The decision: a pure function of the row, the parameters, the history and the randoms.
#pragma once

#include "proto/sampling.h"
#include "sampler/request.h"
#include "sampler/row_view.h"
#include "sampler/sequence_state.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// Every input may come from another process: ids, lengths and parameters are checked, and what is wrong
// comes back as the decision's error. `state` must have begun with the request's parameters and breakers; it
// is brought to the request's history. What else is answered lies in the workspace (Answer). `sequence_uid`
// is left to the caller.
proto::Decision decide(const RowView& row, const Request& request, SequenceState& state,
                       Workspace& workspace) noexcept;

}  // namespace croupier::sampler
