// Everything a session refuses or loses is counted in its segment, where even a dead daemon's files tell it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace croupier::proto {

// In the order of their authors, each of whom has a cache line of his own (counter_place): a decision that is
// counted must not take the client's line from the scheduler's core.
enum class SessionCounter : std::uint32_t {
    // The client, at its steps.
    steps_published,
    steps_taken,
    step_decision_ns,    // logits complete to last commit, summed over steps
    exposed_ns,          // the part of it during which the scheduler waited
    logits_wait_ns,      // publication to logits complete: the engine's own stage
    schedule_ring_full,  // the client found no free step slot
    clients_attached,
    // The client too, at the windows of its steps.
    drafts_offered,
    drafts_accepted,
    // The samplers, at their columns.
    columns_decided,
    columns_failed,
    columns_redecided,  // claims of dead samplers given to others
    records_refused,    // malformed schedule records
    columns_void,
    column_delay_ns,  // logits complete to the start of a column's decision, summed over columns
    block_requests,   // for more of a lean step's row
    columns_rejected,
    // The samplers, after their share of a step.
    draws_hot,
    draws_tail,
    draws_corrected,
    tiles_read,
    tiles_skipped,
    asked_left_open,  // decided over all tokens after all, because bounds could not tell
    mirostat_left_open,
    proposals_left_open,
    // The supervisor and the writers, and whoever is refused.
    stale_epoch_refused,  // commits by a client or writer that had been fenced
    writers_lost,
    writers_attached,
    clients_lost,
    zmq_steps_sent,
    zmq_send_deferred,  // the subscriber was slow: the step stayed in the ring
    steps_given_up,
    stand_ins,
    count_
};

constexpr std::size_t kCountersInLine = 8;
constexpr std::size_t kCounterLines = 5;

constexpr std::size_t counter_place(SessionCounter which) {
    constexpr std::array kFirstOfLine = {SessionCounter::steps_published, SessionCounter::drafts_offered,
                                         SessionCounter::columns_decided, SessionCounter::draws_hot,
                                         SessionCounter::stale_epoch_refused};
    static_assert(kFirstOfLine.size() == kCounterLines);
    std::size_t line = kCounterLines - 1;
    while (which < kFirstOfLine[line]) --line;
    return line * kCountersInLine + static_cast<std::size_t>(which) -
           static_cast<std::size_t>(kFirstOfLine[line]);
}

struct CounterText {
    const char* name;
    const char* help;
};

constexpr std::array kSessionCounterText = {
    CounterText{"steps_published", "Steps that the client published"},
    CounterText{"steps_taken", "Steps whose decisions the client took"},
    CounterText{"step_decision_ns", "Time from logits complete to the step's last commit"},
    CounterText{"exposed_ns", "Part of the decision time during which the scheduler waited"},
    CounterText{"logits_wait_ns", "Time from publication to logits complete"},
    CounterText{"schedule_ring_full", "Submissions refused because every step slot was in flight"},
    CounterText{"clients_attached", "Clients that attached"},
    CounterText{"drafts_offered", "Rows of windows that were computed from a draft token"},
    CounterText{"drafts_accepted", "Drafts that were the token that was decided before them"},
    CounterText{"columns_decided", "Columns decided with a token"},
    CounterText{"columns_failed", "Columns decided with an error"},
    CounterText{"columns_redecided", "Columns taken back from samplers that died"},
    CounterText{"records_refused", "Schedule records refused as malformed"},
    CounterText{"columns_void",
                "Columns that samplers answered with void, for sequences that ended or were cut"},
    CounterText{"column_delay_ns",
                "Time from logits complete to the start of a column's decision, summed over columns"},
    CounterText{"block_requests", "Times that a decision needed more of a row than its lean step had sent"},
    CounterText{"columns_rejected",
                "Rows of windows computed from another token than was decided before them, or not at all"},
    CounterText{"draws_hot",
                "Untruncated draws whose token came from the hot set, or the blocks that the row chose"},
    CounterText{"draws_tail", "Untruncated draws whose token came from the other blocks"},
    CounterText{"draws_corrected", "Untruncated draws that took more than one proposal"},
    CounterText{"tiles_read", "Tiles of 64 logits that decisions read"},
    CounterText{"tiles_skipped", "Tiles that decisions did not read, because their maxima told enough"},
    CounterText{"asked_left_open", "Draws with one filter that its sums left open: decided over all tokens"},
    CounterText{"mirostat_left_open", "Mirostat draws whose kept tokens bounds left open: decided over all"},
    CounterText{"proposals_left_open", "Draws of rng shvs whose proposals were all rejected: raced"},
    CounterText{"stale_epoch_refused", "Commits refused because their author had been fenced"},
    CounterText{"writers_lost", "Logits writers that died"},
    CounterText{"writers_attached", "Logits writers that attached"},
    CounterText{"clients_lost", "Clients that died"},
    CounterText{"zmq_steps_sent", "Steps sent over the ZMQ decision stream"},
    CounterText{"zmq_send_deferred", "Steps kept in the ring because the ZMQ subscriber was slow"},
    CounterText{"steps_given_up", "Steps given up before all their columns were decided"},
    CounterText{"stand_ins", "Times that a stand-in began to decide because the daemon was gone"},
};
static_assert(kSessionCounterText.size() == static_cast<std::size_t>(SessionCounter::count_),
              "every counter needs its name and help");

}  // namespace croupier::proto
