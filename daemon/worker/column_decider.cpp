#include "daemon/worker/column_decider.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "daemon/worker/sent_columns.h"
#include "daemon/worker/step_logits.h"
#include "proto/philox.h"
#include "request/draw.h"
#include "sampler/lean_draw.h"
#include "sampler/plan.h"
#include "sampler/race_key.h"
#include "shm/sequence_turn.h"
#include "shm/wishes.h"

namespace croupier::daemon {

using proto::DecisionError;

namespace {

// The parts of a sequence entry that a decision needs, each within its bounds.
struct CheckedSequence {
    proto::SamplingParams params;
    const std::int32_t* log = nullptr;
    std::uint32_t prompt_length = 0;
    std::uint32_t hot_choice = 0;
    std::uint32_t admission = 0;
    std::uint32_t revision = 0;

    SequenceStates::Which which(std::uint32_t slot) const { return {slot, admission, revision}; }
};

DecisionError check_position(const shm::Segment& segment, const CheckedStep& step,
                             const proto::ScheduleColumn& asked) {
    if (asked.after_steps != 0 && !step.follows) return DecisionError::bad_record;
    const shm::SequenceTurn turn = shm::turn_of(segment, step.step, asked);
    if (turn.turn == shm::Turn::never) return DecisionError::voided;
    // `later`: it was due when it was claimed, and its record has been written over since.
    if (turn.turn != shm::Turn::now) return DecisionError::bad_record;
    return turn.outputs == asked.position ? DecisionError::none : DecisionError::bad_position;
}

DecisionError check_sequence(const shm::Segment& segment, const CheckedStep& step,
                             const proto::ScheduleColumn& asked, CheckedSequence& checked,
                             SequenceLists& lists) {
    const auto& geometry = segment.geometry();
    if (asked.mask_row > geometry.mask_rows) return DecisionError::bad_mask;
    if (asked.sequence_slot >= geometry.max_sequences) return DecisionError::bad_sequence;
    const auto& entry = segment.sequence(asked.sequence_slot);
    // SYNC: acquire, and before the rest; pairs with the release in SequenceTable::add. While logits are
    // awaited the step may be over, and the slot another sequence's, before all of the entry is read: what is
    // then derived of it stands under a number that is never met again.
    checked.admission = entry.admission.load(std::memory_order_acquire);
    // SYNC: acquire; pairs with the release in SequenceTable::add.
    const auto state = entry.state.load(std::memory_order_acquire);
    if (entry.uid != asked.sequence_uid) return DecisionError::bad_sequence;
    if (state == proto::SequenceState::ending) return DecisionError::voided;
    if (state != proto::SequenceState::live) return DecisionError::bad_sequence;
    const auto params = segment.params(asked.sequence_slot);
    // An older daemon went on with a newer one's segment: what this sampler cannot do it must not leave out.
    if (!params.is_known()) return DecisionError::bad_parameter;
    checked.params = params;
    checked.prompt_length = entry.prompt_length;
    checked.hot_choice = entry.hot_choice;
    checked.log = segment.token_log(asked.sequence_slot);
    checked.revision = asked.revision;
    const ListCounts counts(entry);
    const std::uint32_t length = entry.length.load(std::memory_order_acquire);
    if (length > geometry.max_length || checked.prompt_length > length || !counts.fit(geometry)) {
        return DecisionError::bad_sequence;
    }
    if (checked.params.logprobs > geometry.max_logprobs) return DecisionError::bad_parameter;
    if (checked.params.support > geometry.max_support) return DecisionError::bad_parameter;
    lists.copy(segment, asked.sequence_slot, counts);
    if (const auto fault = check_position(segment, step, asked); fault != DecisionError::none) return fault;
    // Tokens that are decided and not taken stand behind the log's length.
    const std::uint64_t before = std::uint64_t{checked.prompt_length} + asked.position;
    if (before > geometry.max_length) return DecisionError::bad_position;
    // SYNC: acquire; pairs with the release in Segment::make_log_room.
    const std::uint32_t room = entry.log_room.load(std::memory_order_acquire);
    return before == geometry.max_length || before < room ? DecisionError::none : DecisionError::no_memory;
}

// What it asks, of its row's place in the step nothing yet.
sampler::Request request_of(const CheckedSequence& sequence, std::uint32_t position,
                            const SequenceLists& lists) {
    sampler::Request request;
    request.params = &sequence.params;
    lists.lend(request);
    request.prompt = {sequence.log, sequence.prompt_length};
    request.output = {sequence.log + sequence.prompt_length, position};
    return request;
}

// With what this sampler has for it.
sampler::Request lent_request(SessionView& session, const CheckedSequence& sequence, std::uint32_t position,
                              Lane lane, const PreparedRaces& races) {
    const proto::Geometry& geometry = session.segment().geometry();
    sampler::Request request = request_of(sequence, position, session.lists(lane.thread));
    request.prepared = races.find(sampler::race_key(sequence.params, request), geometry.vocab);
    request.max_length = geometry.max_length;
    request.hot_blocks = session.hot_blocks(sequence.hot_choice);
    return request;
}

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

// Says who has a state that another would have to derive; the line is written only where that changes.
void note_owner(proto::SequenceEntry& entry, const sampler::SequenceState& state, Lane lane) {
    const std::uint32_t owner = state.derives() ? lane.number + 1 : 0;
    if (entry.owner.load(std::memory_order_relaxed) == owner) return;
    entry.owner.store(owner, std::memory_order_relaxed);
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

// What a lean step's slices are, as a decision begins: whether they still are that when it is made.
class LeanTurn {
  public:
    LeanTurn(const shm::Segment& segment, const CheckedStep& step)
        : segment_(segment),
          step_(step),
          // Before it is told how the step was sent: later writers are told from those that sent it.
          epochs_(segment.geometry().lean_room() != 0 ? shm::writer_epochs(segment) : 0),
          sent_as_(daemon::sent_as(segment, step)),
          sent_(segment, step) {}

    shm::Wishes wishes() const { return {segment_, step_.step, epochs_}; }
    bool is_awaited(std::uint32_t column) const { return !has_rows() && wishes().awaited(column); }
    // As it is decided. `open`: the column is not there.
    SentAs sent_as(std::uint32_t column) {
        return sent_as_ == SentAs::open && is_sent(column) ? SentAs::lean : sent_as_;
    }
    bool is_over(std::uint32_t column) {
        if (has_rows()) return false;
        // SYNC: acquire; what was read of the rows was read before the words are. Pairs with the release
        // fence in LogitsPublisher::begin_epoch.
        std::atomic_thread_fence(std::memory_order_acquire);
        if (!slices_complete(segment_, step_) && !is_sent(column)) return true;
        return shm::writer_epochs(segment_) != epochs_;
    }

  private:
    bool has_rows() const { return sent_as_ == SentAs::rows; }
    bool is_sent(std::uint32_t column) {
        sent_.look();
        return sent_.has(column);
    }

    const shm::Segment& segment_;
    const CheckedStep& step_;
    std::uint32_t epochs_;
    SentAs sent_as_;
    SentColumns sent_;
};

// A copy of a decision that was asked for, while all that it was made of is there. False: not of its whole
// row, whose absent blocks the workspace has.
bool capture(CapturedColumn& captured, const sampler::RowView& row, const sampler::Request& request,
             bool randoms_supplied, sampler::Workspace& workspace) {
    try {
        const request::DecisionPath path = workspace.answer().path;
        if (!captured.keep_row(row, workspace)) return false;
        captured.keep_request(request, randoms_supplied, path);
    } catch (const std::bad_alloc&) {
        captured.forget();
    }
    return true;
}

DecidedColumn left_alone() {
    DecidedColumn left;
    left.left = true;
    return left;
}

void append(const shm::Segment& segment, const proto::ScheduleColumn& asked, std::uint32_t prompt_length,
            std::int32_t token) {
    // The same stores with the same values whoever makes them: a sampler that repeats them after another's
    // death changes nothing. They become visible with the commit's release.
    segment.token_log(asked.sequence_slot)[prompt_length + asked.position] = token;
}

}  // namespace

bool is_due(const shm::Segment& segment, const CheckedStep& step, std::uint32_t column) {
    const bool awaited = LeanTurn(segment, step).is_awaited(column);
    if (!step.follows && !awaited) return true;
    const proto::ScheduleColumn asked = segment.schedule_columns(step.slot)[column];
    // What names no sequence is refused when it is decided.
    if (asked.sequence_slot >= segment.geometry().max_sequences) return true;
    // A void column is answered whatever its writers do.
    if (awaited) return shm::turn_of(segment, step.step, asked).turn == shm::Turn::never;
    return asked.after_steps == 0 || shm::turn_of(segment, step.step, asked).turn != shm::Turn::later;
}

DecisionError check_record(const shm::Segment& segment, std::uint64_t step, CheckedStep& checked) {
    const std::uint32_t slot = segment.slot_of(step);
    const proto::ScheduleRecord record = segment.schedule(slot);
    if (record.step != step || record.columns == 0 || record.columns > segment.geometry().max_batch ||
        (record.flags & ~proto::kRecordFlags) != 0) {
        return DecisionError::bad_record;
    }
    checked = {step,
               slot,
               record.columns,
               record.revisions,
               record.published_ns,
               record.before_taken_ns,
               (record.flags & proto::kRandomsSupplied) != 0,
               (record.flags & proto::kFollows) != 0};
    return DecisionError::none;
}

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
    if (expects_lean(segment, step.slot)) __builtin_prefetch(&segment.wish(step.slot, column));
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
    const sampler::Request request = lent_request(session, sequence, asked.position, lane, races);
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
    workspace.answer_space = {};
    (void)sampler::decide(*row, request, state, workspace);
    // How far to look is for the sequence's own rows to say.
    state.note_search_width(width);
}

DecidedColumn decide_column(SessionView& session, const CheckedStep& step, std::uint32_t column, Lane lane,
                            const PreparedRaces& races, sampler::Workspace& workspace) {
    const shm::Segment& segment = session.segment();
    const auto stored = segment.schedule_columns(step.slot)[column];
    const proto::ScheduleColumn asked = stored;
    SequenceLists& lists = session.lists(lane.thread);
    CheckedSequence sequence;
    bool read_early = false;
    workspace.answer_space = {};
    proto::Decision decision;
    decision.error =
        stored.is_known() ? check_sequence(segment, step, asked, sequence, lists) : DecisionError::bad_record;
    LeanTurn turn(segment, step);
    SentAs sent = SentAs::open;
    if (decision.error == DecisionError::none) {
        // Between the look at the column and its claim another one may have asked for more, or another writer
        // have come.
        if (turn.is_awaited(column) || turn.is_over(column)) return left_alone();
        sent = turn.sent_as(column);
        if (sent == SentAs::open) return left_alone();
        // As rows, once they are all there.
        if (sent == SentAs::differing && !session.lean().stands_whole(segment, step, column)) {
            turn.wishes().ask(column, session.lean().all_blocks());
            return left_alone();
        }
    }
    if (decision.error == DecisionError::none) {
        sampler::Request request = lent_request(session, sequence, asked.position, lane, races);
        request.random = random_for(segment, step, column, request);
        if (asked.mask_row != 0) {
            const std::uint32_t words = (segment.geometry().vocab + 31) / 32;
            request.mask = {segment.mask_row(step.slot, asked.mask_row - 1), words};
        }
        const bool feeds_back = carries_feedback(sequence.params);
        auto& kept = segment.feedback(asked.sequence_slot);
        if (feeds_back) request.feedback = feedback_before(kept, sequence.admission, asked.position);
        auto& state = session.states().of(lane.thread, sequence.which(asked.sequence_slot), sequence.params,
                                          request.dry_breakers);
        const sampler::RowView row = session.row(step, column, lane.thread, sent, read_early);
        decision = sampler::decide(row, request, state, workspace);
        auto missing = workspace.answer().missing;
        const bool is_asked = session.asked() && session.asked()->uid == asked.sequence_uid;
        CapturedColumn& captured = session.captured(lane.thread);
        if (is_asked && missing.empty() && !capture(captured, row, request, step.randoms_supplied, workspace))
            missing = workspace.lean.missing;
        if (!missing.empty()) turn.wishes().ask(column, missing);
        if (!missing.empty() || turn.is_over(column)) {
            captured.forget();
            return left_alone();
        }
        session.states().account(lane.thread, asked.sequence_slot);
        note_owner(segment.sequence(asked.sequence_slot), state, lane);
        if (feeds_back && decision.error == DecisionError::none) {
            leave_feedback(kept, sequence.admission, asked.position, workspace.answer().feedback);
        }
    }
    decision.sequence_uid = asked.sequence_uid;
    decision.position = asked.position;
    if (decision.error == DecisionError::none) append(segment, asked, sequence.prompt_length, decision.token);
    leave_logprobs(segment.logprobs(step.slot, column), workspace.answer().logprobs);
    leave_support(segment, step.slot, column, workspace.answer());
    return {false, decision, sequence.hot_choice, read_early};
}

}  // namespace croupier::daemon
