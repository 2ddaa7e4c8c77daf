// What a sampler does with one session: looks at its steps in flight and decides the columns that it can
// claim.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "daemon/worker/capture.h"
#include "daemon/worker/column_decider.h"
#include "daemon/worker/draw_tally.h"
#include "daemon/worker/session_view.h"
#include "daemon/worker/step_logits.h"
#include "daemon/worker/thread_team.h"
#include "proto/plane.h"
#include "shm/column_journal.h"

namespace croupier::daemon {

struct Look {
    std::size_t decided = 0;
    bool pending = false;  // a step waits for logits that may come without a ring of the bell
    bool busy = false;     // and there was something to do meanwhile
    bool suspect = false;  // a column that samplers died of waits for one that decides it alone
    bool own = false;      // of what is pending some is this sampler's share
    // As far as steps before tell: such logits may come at any moment, or not for so long.
    bool soon = false;
    std::chrono::nanoseconds until_soon = std::chrono::nanoseconds::max();

    void add(const Look& other) {
        decided += other.decided;
        pending = pending || other.pending;
        busy = busy || other.busy;
        suspect = suspect || other.suspect;
        own = own || other.own;
        soon = soon || other.soon;
        until_soon = std::min(until_soon, other.until_soon);
    }
};

class StepWorker {
  public:
    static constexpr std::uint64_t kEndless = ~std::uint64_t{0};

    // `index` of `samplers`: where in a batch this sampler begins, so that they seldom meet.
    // `journals`: one a thread.
    StepWorker(proto::PlaneHeader& plane, std::vector<shm::JournalWriter> journals, std::uint32_t index,
               std::uint32_t threads, int event_fd, Captures captures = {});

    // Before the first look at it: what the session needs of this sampler.
    void make_room(const SessionView& session);
    // What sessions of other vocabularies needed is given back: a hundred bytes and more for each token.
    void keep_room_of(const std::set<std::uint32_t>& vocabularies);
    // Looks for no longer than `slice_ns`, give or take a column: others wait.
    Look look(SessionView& session, std::uint64_t slice_ns);
    // Decides one suspected column, and nothing beside it. False: there is none that nobody has.
    bool decide_suspect(SessionView& session);

  private:
    struct Share {
        std::size_t decided = 0;
        bool whole = true;     // false: others' columns were left to them, who may yet be late
        bool waits = false;    // own columns are not due
        bool follows = false;  // there is more of a column's history
    };

    std::uint32_t first_lane() const { return index_ * team_.count(); }
    Lane lane(std::size_t thread) const {
        return {thread, first_lane() + static_cast<std::uint32_t>(thread)};
    }
    std::uint32_t lanes() const { return std::max(plane_->sampler_count, 1U) * team_.count(); }
    // True: there was something to do meanwhile, and there may be more.
    bool await_logits(SessionView& session, const CheckedStep& step, bool soon);
    // Answers the columns that will never be decided, whether logits come or not: how many.
    std::size_t answer_void(SessionView& session, const CheckedStep& step);
    // A step of a session whose decisions go over ZMQ is complete.
    void wake_supervisor(const shm::Segment& segment) const;
    bool prepare_next(SessionView& session, const CheckedStep& step);
    bool rehearse_next(SessionView& session, const CheckedStep& step);
    // Does it in the column's name: who dies of it has died of the column.
    template <typename Work>
    void touch_column(const SessionView& session, const CheckedStep& step, std::uint32_t column, Work work);
    // By how many nanoseconds the step's logits are longer complete than samplers usually take, twice over,
    // whose share is of so many columns.
    static std::uint64_t late_by(const SessionView& session, const CheckedStep& step, std::size_t share,
                                 std::uint64_t now);
    // Before all logits are there: how many.
    std::size_t decide_sent(SessionView& session, const CheckedStep& step);
    // Of a step whose logits are not all there the columns that are `sent`; null: of one whose logits are.
    // `now`: the last reading of the clock.
    Share decide_claimable(SessionView& session, const CheckedStep& step, const SentColumns* sent,
                           std::uint64_t now);
    Share decide_share(SessionView& session, const CheckedStep& step, const SentColumns* sent,
                       std::size_t thread, std::uint64_t now);
    // Of a column that is not claimed yet. False: there is more, and it waits for the next look.
    bool follow_history_for(SessionView& session, const CheckedStep& step, std::uint32_t column,
                            std::size_t thread);
    // Others' columns: those that cost this thread no more than their owner when the step is a little late,
    // then the rest when it is later.
    void decide_others(SessionView& session, const CheckedStep& step, std::size_t thread, std::uint64_t now,
                       DrawTally& tally, Share& share);
    struct OneDecision {
        std::uint64_t end = 0;  // a reading of the clock
        bool deferred = false;  // not decided: it waits for more of its row
    };
    // For the column that a thread answered, and for the step where that completed it.
    void keep_void(SessionView& session, const CheckedStep& step, std::uint32_t column, std::uint64_t uid,
                   bool last);
    // Begins at that reading.
    OneDecision decide_one(SessionView& session, const CheckedStep& step, std::uint32_t column,
                           std::size_t thread, std::uint64_t begin, DrawTally& tally);
    // Of a decision that was asked for, when it is committed.
    void give_captured(SessionView& session, const CheckedStep& step, std::uint32_t column,
                       std::size_t thread, const proto::Decision& decision) const;
    sampler::Workspace& workspace(std::uint32_t vocab, std::size_t thread) {
        return *workspaces_.at(vocab)[thread];
    }

    proto::PlaneHeader* plane_;
    proto::SamplerEntry* entry_;
    std::uint32_t index_;
    std::uint32_t incarnation_;
    // Several threads decide on other cores than the one that looks. And what ended a sampler before may have
    // been a rehearsal, which need not recur in the decision: it must not end one at each step.
    bool rehearses_;
    std::uint64_t looks_ = 0;
    std::uint64_t last_decided_ns_ = 0;
    std::uint64_t slice_ends_ = kEndless;
    std::vector<shm::JournalWriter> journals_;  // [thread]
    Captures captures_;
    int event_fd_;                      // wakes the supervisor for sessions whose decisions go over ZMQ
    std::vector<PreparedRaces> races_;  // [thread]
    ThreadTeam team_;
    // By vocabulary, one a thread: sessions of different vocabularies take turns.
    std::map<std::uint32_t, std::vector<std::unique_ptr<sampler::Workspace>>> workspaces_;
};

}  // namespace croupier::daemon
