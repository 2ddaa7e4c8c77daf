#include "daemon/worker/column_decider.h"

#include <algorithm>
#include <new>

#include "daemon/worker/column_request.h"
#include "daemon/worker/step_logits.h"
#include "proto/philox.h"
#include "sampler/params.h"
#include "shm/column_due.h"

namespace croupier::daemon {

using proto::DecisionError;

namespace {

std::uint32_t random_for(const shm::Segment& segment, const CheckedStep& step, std::uint32_t column,
                         const sampler::Request& request) {
    if (step.randoms_supplied) return segment.randoms(step.slot)[column].stream[0];
    const proto::SamplingParams& params = *request.params;
    return proto::random_at(params.seed, sampler::random_position(request), params.child, 0);
}

bool carries_feedback(const proto::SamplingParams& params) {
    return request::replaces_draw(params);
}

proto::Feedback feedback_before(const proto::KeptFeedback& kept, std::uint32_t admission,
                                std::uint32_t position) {
    const proto::FeedbackAfter left = kept[position % proto::kFeedbackKept];
    const bool of_this = left.outputs == position && left.admission == admission;
    return of_this ? left.feedback : proto::Feedback{};
}

// As in append(): whoever makes these stores, and however often, they are the same.
void leave_feedback(proto::KeptFeedback& kept, std::uint32_t admission, std::uint32_t position,
                    const proto::Feedback& feedback) {
    kept[(position + 1) % proto::kFeedbackKept] = {feedback, position + 1, admission};
}

// As in append(): the same stores whoever makes them.
void leave_logprobs(const proto::StoredArray<proto::RankedLogprob>& to,
                    std::span<const proto::RankedLogprob> ranked) {
    if (to.empty()) return;
    const std::size_t count = std::min(ranked.size(), to.size());
    for (std::size_t i = 0; i < count; ++i) to[i].store(ranked[i]);
    // A count of 0 is said by the first one's rank.
    if (count < to.size()) to[count].store({-1, 0.0F, 0});
}

// As in append().
void leave_support(const shm::Segment& segment, std::uint32_t slot, std::uint32_t column,
                   const sampler::Answer& answer) {
    const auto room = segment.support(slot, column);
    if (room.empty()) return;
    const std::size_t count = std::min(answer.support.size(), room.size());
    std::copy_n(answer.support.begin(), count, room.begin());
    segment.support_head(slot, column) = {static_cast<std::uint32_t>(count), answer.support_total, 0};
}

// A copy of a decision that was asked for, while all that it was made of is there. False: not of its whole
// row, whose absent blocks the workspace has.
bool capture(CapturedColumn& captured, const sampler::RowView& row, const sampler::Request& request,
             std::span<const std::int32_t> stop_words, bool randoms_supplied, sampler::Workspace& workspace) {
    try {
        const request::DecisionPath path = workspace.answer().path;
        if (!captured.keep_row(row, workspace)) return false;
        captured.keep_request(request, stop_words, randoms_supplied, path);
    } catch (const std::bad_alloc&) {
        captured.forget();
    }
    return true;
}

void append(const shm::Segment& segment, const proto::ScheduleColumn& asked, const CheckedSequence& sequence,
            std::int32_t token) {
    // The same stores with the same values whoever makes them: a sampler that repeats them after another's
    // death changes nothing. They become visible with the commit's release.
    segment.token_log(asked.sequence_slot)[sequence.prompt_length + sequence.position] = token;
}

// What of the request belongs to its column in this step.
void fill_in_column(const shm::Segment& segment, const CheckedStep& step, std::uint32_t column,
                    const proto::ScheduleColumn& asked, const CheckedSequence& sequence,
                    sampler::Request& request) {
    request.random = random_for(segment, step, column, request);
    if (asked.mask_row != 0) {
        const std::uint32_t words = (segment.geometry().vocab + 31) / 32;
        request.mask = {segment.mask_row(step.slot, asked.mask_row - 1), words};
    }
    if (carries_feedback(*request.params)) {
        request.feedback =
            feedback_before(segment.feedback(asked.sequence_slot), sequence.admission, sequence.position);
    }
}

// The decision becomes visible with the commit's release.
DecidedColumn store(const shm::Segment& segment, const CheckedStep& step, std::uint32_t column,
                    const proto::ScheduleColumn& asked, const CheckedSequence& sequence,
                    proto::Decision decision, const sampler::Answer& answer) {
    decision.sequence_uid = asked.sequence_uid;
    decision.position = sequence.position;
    if (decision.error == DecisionError::none) {
        append(segment, asked, sequence, decision.token);
        if (carries_feedback(sequence.params)) {
            leave_feedback(segment.feedback(asked.sequence_slot), sequence.admission, sequence.position,
                           answer.feedback);
        }
    }
    leave_logprobs(segment.logprobs(step.slot, column), answer.logprobs);
    leave_support(segment, step.slot, column, answer);
    return {false, decision, sequence.hot_choice, false};
}

// Of a column that brings no token.
DecidedColumn store_error(const shm::Segment& segment, const CheckedStep& step, std::uint32_t column,
                          const proto::ScheduleColumn& asked, const CheckedSequence& sequence,
                          DecisionError error, sampler::Workspace& workspace) {
    proto::Decision decision;
    decision.error = error;
    workspace.answer_space = {};
    return store(segment, step, column, asked, sequence, decision, workspace.answer());
}

// The text comes after whatever else ends a sequence.
void search_stops(StopSearch& stops, const sampler::Request& request, proto::Decision& decision) {
    stops.follow(request.output);
    if (decision.error != DecisionError::none || (decision.flags & proto::kStoppedMask) != 0) return;
    decision.flags |= stops.completed_by(decision.token);
}

DecidedColumn deferred() {
    DecidedColumn column;
    column.deferred = true;
    return column;
}

}  // namespace

bool is_due(const shm::Segment& segment, const CheckedStep& step, std::uint32_t column) {
    const bool awaited = SentColumn(segment, step, column).awaits_blocks();
    if (!step.follows && !step.windows && !awaited) return true;
    const proto::ScheduleColumn asked = segment.schedule_columns(step.slot)[column];
    // What names no sequence is refused when it is decided.
    if (asked.sequence_slot >= segment.geometry().max_sequences) return true;
    const auto due = [&] { return shm::due_of(segment, step.step, column, asked).due; };
    // A void column is answered whatever its writers do.
    if (awaited) return due() == shm::Due::never;
    return (asked.after_steps == 0 && asked.row == 0) || due() != shm::Due::later;
}

DecisionError check_record(const shm::Segment& segment, std::uint64_t step, CheckedStep& checked) {
    const std::uint32_t slot = segment.slot_of(step);
    const proto::ScheduleRecord record = segment.schedule(slot);
    if (record.step != step || record.columns == 0 || record.columns > segment.geometry().max_batch ||
        (record.flags & ~proto::kRecordFlags) != 0) {
        return DecisionError::bad_record;
    }
    // Nobody would supply them.
    const bool randoms_supplied = (record.flags & proto::kRandomsSupplied) != 0;
    const bool windows = (record.flags & proto::kWindows) != 0;
    if (randoms_supplied && (windows || segment.geometry().is_lean())) return DecisionError::bad_record;
    checked = {step,
               slot,
               record.columns,
               record.revisions,
               record.published_ns,
               record.before_taken_ns,
               randoms_supplied,
               (record.flags & proto::kFollows) != 0,
               windows};
    return DecisionError::none;
}

DecidedColumn decide_column(SessionView& session, const CheckedStep& step, std::uint32_t column, Lane lane,
                            const PreparedRaces& races, sampler::Workspace& workspace) {
    // Load: the column's request.
    const shm::Segment& segment = session.segment();
    const auto stored = segment.schedule_columns(step.slot)[column];
    const proto::ScheduleColumn asked = stored;
    // Before what its row was computed from is read: another writer sends both anew.
    SentColumn sent(segment, step, column);
    const bool there = !sent.awaits_blocks() && sent.is_there();
    CheckedSequence sequence;
    const DecisionError fault =
        stored.is_known() ? check_sequence(segment, step, column, asked, sequence, session.lists(lane.thread))
                          : DecisionError::bad_record;
    if (sequence.waits) return deferred();
    // Rejected for what its writers have told so far: one that sends the step anew may not have told all.
    if (fault == DecisionError::rejected && (!there || sent.is_over())) return deferred();
    if (fault != DecisionError::none)
        return store_error(segment, step, column, asked, sequence, fault, workspace);
    sampler::Request request = request_with_races(session, sequence, lane, races);
    fill_in_column(segment, step, column, asked, sequence, request);

    // Load: its row. Between the look at the column and its claim another sampler may have asked for blocks,
    // or another writer have come.
    if (!there) return deferred();
    if (step.windows && asked.row == 0 &&
        !shm::was_fed(segment, step.step, column, asked, sequence.position)) {
        if (sent.is_over()) return deferred();
        return store_error(segment, step, column, asked, sequence, DecisionError::bad_input, workspace);
    }
    const ColumnRow row = session.row(step, column, lane.thread);

    // Decide.
    const SequenceLists& lists = session.lists(lane.thread);
    auto& state = session.states().of(lane.thread, sequence.which(asked.sequence_slot), sequence.params,
                                      request.dry_breakers, lists.stop_words());
    StopSearch* stops = nullptr;
    if (searches_text(sequence, lists)) {
        stops = session.states().stops_of(lane.thread, asked.sequence_slot, session.tokens(), request.prompt);
        if (stops == nullptr)
            return store_error(segment, step, column, asked, sequence, DecisionError::bad_parameter,
                               workspace);
    }
    proto::Decision decision = sampler::decide(row.view, request, state, workspace);
    auto missing = workspace.answer().missing;
    const bool is_asked = session.asked() && session.asked()->uid == asked.sequence_uid;
    CapturedColumn& captured = session.captured(lane.thread);
    if (is_asked && missing.empty() &&
        !capture(captured, row.view, request, lists.stop_words(), step.randoms_supplied, workspace))
        missing = workspace.lean.missing;

    // Wait: for blocks that the row lacks, or for the writer that sends it anew.
    if (!missing.empty()) sent.ask(missing);
    if (!missing.empty() || sent.is_over()) {
        captured.forget();
        return deferred();
    }

    // Store.
    if (stops != nullptr) search_stops(*stops, request, decision);
    session.states().account(lane.thread, asked.sequence_slot, false);
    note_owner(segment.sequence(asked.sequence_slot), state.derives() || stops != nullptr, lane);
    DecidedColumn decided = store(segment, step, column, asked, sequence, decision, workspace.answer());
    decided.read_early = row.read_early;
    return decided;
}

}  // namespace croupier::daemon
