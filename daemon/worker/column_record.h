// What a sampler keeps of a column and of a step in its journal (proto/column_journal.h).
#pragma once

#include <cstdint>

#include "daemon/worker/checked_step.h"
#include "daemon/worker/column_decider.h"
#include "daemon/worker/late_rank.h"
#include "proto/column_journal.h"
#include "sampler/workspace.h"

namespace croupier::daemon {

// Readings of the clock.
struct ColumnTimes {
    std::uint64_t ready = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

proto::ColumnRecord record_of(std::uint64_t session_id, const CheckedStep& step, std::uint32_t column,
                              const DecidedColumn& decided, const sampler::Answer& answer,
                              const ColumnTimes& times);
// Of one that was answered without a decision.
proto::ColumnRecord record_of(std::uint64_t session_id, const CheckedStep& step, std::uint32_t column,
                              std::uint64_t sequence_uid, proto::DecisionError error, std::uint64_t now);
proto::StepRecord record_of(std::uint64_t session_id, const CheckedStep& step, std::uint32_t slots,
                            const LateRank& late, std::uint64_t ready, std::uint64_t commit);

}  // namespace croupier::daemon
