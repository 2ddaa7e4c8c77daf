// What of a request cannot be decided. Every input may come from another process.
#pragma once

#include "proto/decision.h"
#include "sampler/request.h"
#include "sampler/row_view.h"

namespace croupier::sampler::reference {

proto::DecisionError request_fault(const RowView& view, const Request& request);

}  // namespace croupier::sampler::reference
