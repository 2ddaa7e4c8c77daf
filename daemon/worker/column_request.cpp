#include "daemon/worker/column_request.h"

#include "sampler/race_key.h"
#include "shm/column_due.h"

namespace croupier::daemon {

using proto::DecisionError;

namespace {

DecisionError find_position(const shm::Segment& segment, const CheckedStep& step, std::uint32_t column,
                            const proto::ScheduleColumn& asked, CheckedSequence& checked) {
    if (asked.after_steps != 0 && !step.follows) return DecisionError::bad_record;
    if (asked.row != 0 && !step.windows) return DecisionError::bad_record;
    const shm::DueColumn found = shm::due_of(segment, step.step, column, asked);
    switch (found.due) {
        case shm::Due::never:
            return DecisionError::voided;
        case shm::Due::rejected:
            return DecisionError::rejected;
        case shm::Due::now:
            break;
        case shm::Due::later:  // it was due when it was claimed, and what it was read from is another's since
            checked.waits = asked.row != 0;
            return DecisionError::bad_record;
        case shm::Due::broken:
            return DecisionError::bad_record;
    }
    if (asked.row == 0 && found.outputs < asked.position) return DecisionError::bad_position;
    checked.position = found.outputs;
    return DecisionError::none;
}

}  // namespace

DecisionError check_sequence(const shm::Segment& segment, const CheckedStep& step, std::uint32_t column,
                             const proto::ScheduleColumn& asked, CheckedSequence& checked,
                             SequenceLists& lists) {
    const auto& geometry = segment.geometry();
    checked.position = asked.position;
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
    checked.prompt_length = entry.prompt_length;
    const std::uint32_t length = entry.length.load(std::memory_order_acquire);
    if (length > geometry.max_length || checked.prompt_length > length) return DecisionError::bad_sequence;
    // Before what may be long is copied: most rows of a window may be rejected.
    const auto fault = find_position(segment, step, column, asked, checked);
    if (fault != DecisionError::none) return fault;
    const auto params = segment.params(asked.sequence_slot);
    // An older daemon went on with a newer one's segment: what this sampler cannot do it must not leave out.
    if (!params.is_known()) return DecisionError::bad_parameter;
    checked.params = params;
    checked.hot_choice = entry.hot_choice;
    checked.log = segment.token_log(asked.sequence_slot);
    checked.revision = asked.revision;
    // SYNC: acquire; pairs with the release in revise(). Of a later revision the column is void.
    const proto::Revision revision = entry.revision(std::memory_order_acquire);
    if (revision.number == asked.revision) checked.kept = revision.kept;
    const ListCounts counts(entry);
    if (!counts.fit(geometry)) return DecisionError::bad_sequence;
    if (checked.params.logprobs > geometry.max_logprobs) return DecisionError::bad_parameter;
    if (checked.params.support > geometry.max_support) return DecisionError::bad_parameter;
    lists.copy(segment, asked.sequence_slot, counts);
    // Tokens that are decided and not taken stand behind the log's length.
    const std::uint64_t before = std::uint64_t{checked.prompt_length} + checked.position;
    if (before > geometry.max_length) return DecisionError::bad_position;
    // SYNC: acquire; pairs with the release in Segment::make_log_room.
    const std::uint32_t room = entry.log_room.load(std::memory_order_acquire);
    return before == geometry.max_length || before < room ? DecisionError::none : DecisionError::no_memory;
}

sampler::Request request_of(const CheckedSequence& sequence, const SequenceLists& lists) {
    sampler::Request request;
    request.params = &sequence.params;
    lists.lend(request);
    request.prompt = {sequence.log, sequence.prompt_length};
    request.output = {sequence.log + sequence.prompt_length, sequence.position};
    return request;
}

bool searches_text(const CheckedSequence& sequence, const SequenceLists& lists) {
    return !lists.stop_words().empty() || (sequence.params.flags & proto::kStopAtJson) != 0;
}

sampler::Request request_with_races(SessionView& session, const CheckedSequence& sequence, Lane lane,
                                    const PreparedRaces& races) {
    const proto::Geometry& geometry = session.segment().geometry();
    sampler::Request request = request_of(sequence, session.lists(lane.thread));
    request.prepared = races.find(sampler::race_key(sequence.params, request), geometry.vocab);
    request.max_length = geometry.max_length;
    request.hot_blocks = session.hot_blocks(sequence.hot_choice);
    return request;
}

// The line is written only where that changes.
void note_owner(proto::SequenceEntry& entry, bool derives, Lane lane) {
    const std::uint32_t owner = derives ? lane.number + 1 : 0;
    if (entry.owner.load(std::memory_order_relaxed) == owner) return;
    entry.owner.store(owner, std::memory_order_relaxed);
}

}  // namespace croupier::daemon
