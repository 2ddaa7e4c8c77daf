#include "daemon/worker/column_preparation.h"

#include "daemon/worker/column_request.h"
#include "request/plan.h"
#include "sampler/decide.h"
#include "sampler/lean_draw.h"
#include "sampler/plan.h"
#include "sampler/race_key.h"

namespace croupier::daemon {

using proto::DecisionError;

namespace {

// Tokens of a history that are followed in one look: with DRY they take about as long as a few columns.
constexpr std::size_t kFollowedALook = 1024;

bool follow_history(SessionView& session, const CheckedSequence& sequence, const sampler::Request& request,
                    const proto::ScheduleColumn& asked, Lane lane) {
    SequenceStates& states = session.states();
    auto& entry = session.segment().sequence(asked.sequence_slot);
    const bool is_known = states.knows(lane.thread, asked.sequence_slot, sequence.admission);
    const bool was_part = states.knows_part(lane.thread, asked.sequence_slot, sequence.admission);
    const SequenceLists& lists = session.lists(lane.thread);
    auto& state = states.of(lane.thread, sequence.which(asked.sequence_slot), sequence.params,
                            request.dry_breakers, lists.stop_words());
    const std::size_t all = request.prompt.size() + request.output.size();
    // Where nothing is derived the ids are looked at, and no more.
    const bool valid = state.follow(request.prompt, request.output, state.derives() ? kFollowedALook : all);
    StopSearch* const stops =
        searches_text(sequence, lists)
            ? states.stops_of(lane.thread, asked.sequence_slot, session.tokens(), request.prompt)
            : nullptr;
    const bool searched = stops == nullptr || stops->follow(request.output, kFollowedALook);
    const bool whole = !valid || (state.length() == all && searched);
    // Of one that is known by the tokens since its last decision, which that accounts for.
    const bool derived = !is_known || was_part || entry.owner.load(std::memory_order_relaxed) == 0;
    if (derived || !whole) states.account(lane.thread, asked.sequence_slot, !whole);
    // Not before: another lane that derives it, too, would free its own.
    if (derived && whole) note_owner(entry, state.derives() || stops != nullptr, lane);
    return whole;
}

}  // namespace

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

bool has_long_history(SessionView& session, const CheckedStep& step, std::uint32_t column, Lane lane) {
    const shm::Segment& segment = session.segment();
    const std::uint32_t slot = segment.schedule_columns(step.slot)[column].load().sequence_slot;
    if (slot >= segment.geometry().max_sequences) return false;
    const std::size_t length = segment.sequence(slot).length.load(std::memory_order_relaxed);
    return length > kFollowedALook &&
           length - kFollowedALook >
               session.states().followed(lane.thread, slot, admission_in(segment, slot));
}

bool follow_history(SessionView& session, const CheckedStep& step, std::uint32_t column, Lane lane) {
    const shm::Segment& segment = session.segment();
    const proto::ScheduleColumn asked = segment.schedule_columns(step.slot)[column];
    SequenceLists& lists = session.lists(lane.thread);
    CheckedSequence sequence;
    if (check_sequence(segment, step, column, asked, sequence, lists) != DecisionError::none) return true;
    return follow_history(session, sequence, request_of(sequence, lists), asked, lane);
}

bool prepare_column(SessionView& session, const CheckedStep& step, std::uint32_t column, Lane lane,
                    PreparedRaces& races) {
    const shm::Segment& segment = session.segment();
    const proto::ScheduleColumn asked = segment.schedule_columns(step.slot)[column];
    SequenceLists& lists = session.lists(lane.thread);
    CheckedSequence sequence;
    if (check_sequence(segment, step, column, asked, sequence, lists) != DecisionError::none) return true;
    const sampler::Request request = request_of(sequence, lists);
    if (!follow_history(session, sequence, request, asked, lane)) return false;
    const auto& geometry = segment.geometry();
    if (sampler::plan_of(sequence.params, request, geometry.vocab).awaits_race())
        races.prepare(sampler::race_key(sequence.params, request), geometry.vocab);
    return true;
}

void rehearse_column(SessionView& session, const CheckedStep& step, std::uint32_t column, Lane lane,
                     const PreparedRaces& races, sampler::Workspace& workspace) {
    const shm::Segment& segment = session.segment();
    const proto::ScheduleColumn asked = segment.schedule_columns(step.slot)[column];
    SequenceLists& lists = session.lists(lane.thread);
    CheckedSequence sequence;
    if (check_sequence(segment, step, column, asked, sequence, lists) != DecisionError::none) return;
    const sampler::Request request = request_with_races(session, sequence, lane, races);
    const auto& geometry = segment.geometry();
    const request::Plan plan = sampler::plan_of(sequence.params, request, geometry.vocab);
    if (asked.mask_row != 0 || !plan.reads_some_blocks()) return;
    const proto::race::Draw drawn_by{plan.key, plan.temperature};
    const auto row = session.rehearsal_row(step, column, drawn_by);
    if (!row) return;
    // Of another request's column, of which no block was sent.
    const sampler::LeanColumn& lean = *row->slices.front().lean;
    const bool drawn = lean.draw && lean.sent == 0;
    if (drawn && !sampler::drawn_token(*row, plan, request)) return;
    auto& state = session.states().of(lane.thread, sequence.which(asked.sequence_slot), sequence.params,
                                      request.dry_breakers, lists.stop_words());
    const std::uint32_t width = state.search_width();
    (void)sampler::decide(*row, request, state, workspace);
    // How far to look is for the sequence's own rows to say.
    state.note_search_width(width);
}

}  // namespace croupier::daemon
