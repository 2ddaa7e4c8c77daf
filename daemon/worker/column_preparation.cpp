#include "daemon/worker/column_preparation.h"

#include "daemon/worker/column_request.h"
#include "request/plan.h"
#include "sampler/decide.h"
#include "sampler/lean_draw.h"
#include "sampler/plan.h"
#include "sampler/race_key.h"

namespace croupier::daemon {

using proto::DecisionError;

void prefetch_column(const shm::Segment& segment, const CheckedStep& step, std::uint32_t column) {
    const proto::ScheduleColumn asked = segment.schedule_columns(step.slot)[column];
    const std::uint32_t sequence = asked.sequence_slot;
    __builtin_prefetch(&segment.claims(step.slot)[column], 1);
    __builtin_prefetch(&segment.committed(step.slot)[column / 64], 1);
    __builtin_prefetch(segment.decisions(step.slot)[column].place(), 1);
    if (sequence >= segment.geometry().max_sequences) return;
    const auto* params = reinterpret_cast<const char*>(segment.params(sequence).place());
    __builtin_prefetch(&segment.sequence(sequence));
    __builtin_prefetch(params);
    __builtin_prefetch(params + 64);
    if (segment.geometry().is_lean()) __builtin_prefetch(&segment.request_cell(step.slot, column));
    __builtin_prefetch(segment.token_log(sequence));
}

void prepare_column(SessionView& session, const CheckedStep& step, std::uint32_t column, Lane lane,
                    PreparedRaces& races) {
    const shm::Segment& segment = session.segment();
    const proto::ScheduleColumn asked = segment.schedule_columns(step.slot)[column];
    SequenceLists& lists = session.lists(lane.thread);
    CheckedSequence sequence;
    if (check_sequence(segment, step, asked, sequence, lists) != DecisionError::none) return;
    const sampler::Request request = request_of(sequence, asked.position, lists);
    const auto& geometry = segment.geometry();
    if (sampler::plan_of(sequence.params, request, {geometry.dtype, geometry.vocab}).awaits_race())
        races.prepare(sampler::race_key(sequence.params, request), geometry.vocab);
    SequenceStates& states = session.states();
    const bool is_known = states.knows(lane.thread, asked.sequence_slot, sequence.admission);
    auto& state =
        states.of(lane.thread, sequence.which(asked.sequence_slot), sequence.params, request.dry_breakers);
    // Of one that is known by the tokens since its last decision.
    (void)state.follow(request.prompt, request.output);
    if (is_known) return;
    states.account(lane.thread, asked.sequence_slot);
    note_owner(segment.sequence(asked.sequence_slot), state, lane);
}

void rehearse_column(SessionView& session, const CheckedStep& step, std::uint32_t column, Lane lane,
                     const PreparedRaces& races, sampler::Workspace& workspace) {
    const shm::Segment& segment = session.segment();
    const proto::ScheduleColumn asked = segment.schedule_columns(step.slot)[column];
    SequenceLists& lists = session.lists(lane.thread);
    CheckedSequence sequence;
    if (check_sequence(segment, step, asked, sequence, lists) != DecisionError::none) return;
    const sampler::Request request = request_with_races(session, sequence, asked.position, lane, races);
    const auto& geometry = segment.geometry();
    const request::Plan plan = sampler::plan_of(sequence.params, request, {geometry.dtype, geometry.vocab});
    if (asked.mask_row != 0 || !plan.reads_some_blocks()) return;
    const proto::race::Draw drawn_by{plan.key, plan.temperature};
    const auto row = session.rehearsal_row(step, column, drawn_by);
    if (!row) return;
    // Of another request's column, of which no block was sent.
    const sampler::LeanColumn& lean = *row->slices.front().lean;
    const bool drawn = lean.draw && lean.sent == 0;
    if (drawn && !sampler::drawn_token(*row, plan, request)) return;
    auto& state = session.states().of(lane.thread, sequence.which(asked.sequence_slot), sequence.params,
                                      request.dry_breakers);
    const std::uint32_t width = state.search_width();
    (void)sampler::decide(*row, request, state, workspace);
    // How far to look is for the sequence's own rows to say.
    state.note_search_width(width);
}

}  // namespace croupier::daemon
