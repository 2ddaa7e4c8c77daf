// The decision: a pure function of the row, the parameters, the history and the randoms.
#pragma once

#include "proto/decision.h"
#include "sampler/request.h"
#include "sampler/row_view.h"
#include "sampler/sequence_state.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

// Every input may come from another process: ids, lengths and parameters are checked, and what is wrong
// comes back as the decision's error. `state` must have begun with the request's parameters and breakers; it
// is brought to the request's history. What else is answered lies in the workspace (Answer). `sequence_uid`
// is left to the caller.
//
// Of a row that is there in part (Slice::lean), the caller looks at Answer::missing first: where it is not
// empty, the decision tells nothing, not even an error. It is to be made again, with the same state, when
// what is missing is there: what it left in `state` is what the request's history says. A caller that gives
// what is missing each time has a decision after a few tries: what needs the whole row asks for all of it at
// once, and what comes to know what it needs by reading asks for more each time.
proto::Decision decide(const RowView& row, const Request& request, SequenceState& state,
                       Workspace& workspace) noexcept;

}  // namespace croupier::sampler
