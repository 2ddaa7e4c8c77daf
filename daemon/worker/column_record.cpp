#include "daemon/worker/column_record.h"

#include <algorithm>
#include <limits>

namespace croupier::daemon {
namespace {

template <typename Small>
Small clamped(std::uint64_t value) {
    return static_cast<Small>(std::min<std::uint64_t>(value, std::numeric_limits<Small>::max()));
}

std::uint8_t marks_of(const DecidedColumn& decided, const sampler::Answer& answer) {
    std::uint8_t marks = 0;
    if (decided.deferred) marks |= proto::kColumnLeft;
    if (decided.read_early) marks |= proto::kColumnReadEarly;
    if (answer.region == sampler::Region::hot) marks |= proto::kColumnHot;
    if (answer.region == sampler::Region::tail) marks |= proto::kColumnTail;
    if (answer.region != sampler::Region::none && answer.proposals > 1) marks |= proto::kColumnCorrected;
    return marks;
}

}  // namespace

proto::ColumnRecord record_of(std::uint64_t session_id, const CheckedStep& step, std::uint32_t column,
                              const DecidedColumn& decided, const sampler::Answer& answer,
                              const ColumnTimes& times) {
    proto::ColumnRecord record;
    record.session_id = session_id;
    record.step = step.step;
    record.sequence_uid = decided.decision.sequence_uid;
    record.ready_ns = times.ready;
    record.begin_ns = times.begin;
    record.duration_ns = clamped<std::uint32_t>(times.end - times.begin);
    record.blocks_read = decided.read_early ? answer.blocks : answer.blocks_read;
    record.blocks = clamped<std::uint16_t>(answer.blocks);
    record.column = static_cast<std::uint16_t>(column);
    record.path = static_cast<std::uint8_t>(answer.path);
    record.left_open = static_cast<std::uint8_t>(answer.left_open);
    record.error = static_cast<std::uint8_t>(decided.decision.error);
    record.marks = marks_of(decided, answer);
    return record;
}

proto::ColumnRecord record_of(std::uint64_t session_id, const CheckedStep& step, std::uint32_t column,
                              std::uint64_t sequence_uid, proto::DecisionError error, std::uint64_t now) {
    proto::ColumnRecord record;
    record.session_id = session_id;
    record.step = step.step;
    record.sequence_uid = sequence_uid;
    record.begin_ns = now;
    record.column = static_cast<std::uint16_t>(column);
    record.error = static_cast<std::uint8_t>(error);
    return record;
}

proto::StepRecord record_of(std::uint64_t session_id, const CheckedStep& step, std::uint32_t slots,
                            const LateRank& late, std::uint64_t ready, std::uint64_t commit) {
    proto::StepRecord record;
    record.session_id = session_id;
    record.step = step.step;
    record.published_ns = step.published_ns;
    record.ready_ns = ready;
    record.commit_ns = commit;
    record.before_taken_ns = step.before_taken_ns;
    record.columns = static_cast<std::uint16_t>(step.columns);
    record.slots = static_cast<std::uint8_t>(slots);
    if (!late.is_known || ready == 0) return record;
    record.last_rank = static_cast<std::uint8_t>(late.rank + 1);
    record.last_rank_late_ns =
        clamped<std::uint32_t>(ready > late.alone_since_ns ? ready - late.alone_since_ns : 0);
    return record;
}

}  // namespace croupier::daemon
