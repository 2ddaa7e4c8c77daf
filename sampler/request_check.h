// Checks a request before any of it is used.
#pragma once

#include "proto/decision.h"
#include "proto/sampling.h"
#include "sampler/request.h"
#include "sampler/row_view.h"
#include "sampler/sequence_state.h"

namespace croupier::sampler {

// Ids are checked even where nothing will index by them, so that what is refused does not depend on which
// controls are on. Brings the state to the request's history, of which it checks each id once.
proto::DecisionError request_fault(const RowView& view, const proto::SamplingParams& params,
                                   const Request& request, SequenceState& state) noexcept;

}  // namespace croupier::sampler
