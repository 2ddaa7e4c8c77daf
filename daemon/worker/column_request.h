// What a column asks for, read from the segment: every word may have been written by a mad process, so that
// it is copied once, checked, and only then used.
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/worker/checked_step.h"
#include "daemon/worker/lane.h"
#include "daemon/worker/prepared_races.h"
#include "daemon/worker/session_view.h"
#include "sampler/request.h"
#include "shm/segment.h"

namespace croupier::daemon {

// The parts of a sequence entry that a decision needs, each within its bounds.
struct CheckedSequence {
    proto::SamplingParams params;
    const std::int32_t* log = nullptr;
    std::uint32_t prompt_length = 0;
    std::uint32_t position = 0;  // outputs before the one that is decided
    std::uint32_t hot_choice = 0;
    std::uint32_t admission = 0;
    std::uint32_t revision = 0;
    std::optional<std::uint32_t> kept;  // by that revision, of prompt and output
    bool waits = false;                 // a row of a window whose parent is another one since it was claimed

    SequenceStates::Which which(std::uint32_t slot) const { return {slot, admission, revision, kept}; }
};

// Of a step's column, `asked`. `lists`: what the sequence's lists are copied to. An error: what the column is
// answered with.
proto::DecisionError check_sequence(const shm::Segment& segment, const CheckedStep& step,
                                    std::uint32_t column, const proto::ScheduleColumn& asked,
                                    CheckedSequence& checked, SequenceLists& lists);

// The request of a checked sequence, without what belongs to its column in the step. It points into both.
sampler::Request request_of(const CheckedSequence& sequence, const SequenceLists& lists);
// Whether its text may end it.
bool searches_text(const CheckedSequence& sequence, const SequenceLists& lists);
// With the races and hot blocks that this sampler has for it.
sampler::Request request_with_races(SessionView& session, const CheckedSequence& sequence, Lane lane,
                                    const PreparedRaces& races);

// Records in the sequence's entry who has a state that another sampler would have to derive, if it has one.
void note_owner(proto::SequenceEntry& entry, bool derives, Lane lane);

}  // namespace croupier::daemon
