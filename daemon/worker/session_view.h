// A sampler's view of one session: its mapping, the ranks' slices, and which steps it has nothing left to do
// in.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/worker/capture.h"
#include "daemon/worker/early_maxima.h"
#include "daemon/worker/late_rank.h"
#include "daemon/worker/lean_rows.h"
#include "daemon/worker/per_step.h"
#include "daemon/worker/sequence_lists.h"
#include "daemon/worker/sequence_states.h"
#include "daemon/worker/step_shares.h"
#include "daemon/worker/void_watch.h"
#include "sampler/row_view.h"
#include "shm/logits_forecast.h"
#include "shm/prefault.h"
#include "shm/segment.h"
#include "text/token_table.h"

namespace croupier::daemon {

struct ColumnRow {
    sampler::RowView view;
    bool read_early = false;  // with the maxima that were made of it while the last tiles were in flight
};

class SessionView {
  public:
    // `totals`: of what this sampler has derived from the logs of all its sessions.
    static shm::Result<std::unique_ptr<SessionView>> make(shm::Segment segment, std::uint32_t threads,
                                                          proto::StateTotals& totals);

    const shm::Segment& segment() const { return segment_; }
    std::uint64_t id() const { return id_; }
    // Neither fenced nor closed: its steps are to be decided.
    bool served() const;
    // The row of one column, read in place, as the writers sent it.
    ColumnRow row(const CheckedStep& step, std::uint32_t column, std::size_t thread);
    // Of a lean step whose logits are awaited, something like it (LeanRows::copy()); nothing: there is none.
    std::optional<sampler::RowView> rehearsal_row(const CheckedStep& step, std::uint32_t column,
                                                  const proto::race::Draw& drawn_by);
    const LeanRows& lean() const { return lean_; }
    EarlyMaxima& early() { return early_; }
    // Of steps of which this sampler has columns.
    shm::LogitsForecast& forecast() { return forecast_; }
    // The blocks of a sequence's hot set; empty: it has none.
    std::span<const std::uint32_t> hot_blocks(std::uint32_t choice) const;
    // How many of this sampler's columns of the step were prepared: the caller counts on.
    std::uint32_t& prepared(const CheckedStep& step) { return prepared_.of(step); }
    // And how many rehearsed, of those.
    std::uint32_t& rehearsed(const CheckedStep& step) { return rehearsed_.of(step); }
    VoidWatch& void_watch() { return void_watch_; }
    LateRankWatch& late_ranks() { return late_ranks_; }

    SequenceStates& states() { return states_; }
    // Null: the session has no tokenizer, or somebody has broken it.
    const text::TokenTable* tokens() const { return tokens_ ? &*tokens_ : nullptr; }
    StepShares& shares() { return shares_; }
    // What one thread has copied of the sequence that it decides.
    SequenceLists& lists(std::size_t thread) { return lists_[thread]; }

    // Of whose next decision a copy is wanted.
    void note_asked(const std::optional<AskedCapture>& asked) { asked_ = asked; }
    const std::optional<AskedCapture>& asked() const { return asked_; }
    CapturedColumn& captured(std::size_t thread) { return captured_[thread]; }

    // The parts of a lean step whose columns this sampler has gone through, before all of it was there.
    std::uint32_t& parts_decided(const CheckedStep& step) { return parts_decided_.of(step); }
    // What this sampler took for a column, decided or not: several threads do so at once.
    void note_time(std::uint64_t ns, bool decided) {
        decided_.fetch_add(decided ? 1 : 0, std::memory_order_relaxed);
        busy_ns_.fetch_add(ns, std::memory_order_relaxed);
    }
    // For a column, in the mean.
    std::uint64_t usual_ns() const {
        return busy_ns_.load(std::memory_order_relaxed) /
               std::max(decided_.load(std::memory_order_relaxed), std::uint64_t{1});
    }

    // A step whose claims are all taken needs no second look, unless claims are freed again.
    bool exhausted(std::uint64_t step) const;
    void note_exhausted(std::uint64_t step, std::uint32_t reopened_before);

  private:
    // Private copies, checked once: what is indexed by them later is inside the slices.
    struct Orders {
        std::vector<std::uint32_t> model;                // all blocks of the vocabulary; empty: identity
        std::vector<std::vector<std::uint32_t>> blocks;  // [rank][place]
        std::vector<std::vector<std::uint32_t>> places;  // [rank][block - its first one]
    };
    static shm::Result<Orders> copy_orders(const shm::Segment& segment);
    static std::optional<text::TokenTable> view_tokens(const shm::Segment& segment);
    // With the place in the slice where rows of the column's window stand whole.
    sampler::RowView lean_view(const CheckedStep& step, std::uint32_t column,
                               std::span<const sampler::Slice> slices) const;

    SessionView(shm::Segment segment, Orders orders, std::uint32_t threads, proto::StateTotals& totals);

    struct Exhausted {
        std::uint64_t step = ~0ULL;
        std::uint32_t reopened = 0;
    };

    shm::Segment segment_;
    Orders orders_;
    std::uint64_t id_ = 0;
    std::optional<text::TokenTable> tokens_;  // read in place
    SequenceStates states_;
    StepShares shares_;
    std::vector<SequenceLists> lists_;                     // [thread]
    std::vector<std::vector<sampler::Slice>> slices_;      // [slot][rank]
    std::vector<std::vector<sampler::Slice>> own_slices_;  // [thread][rank]
    EarlyMaxima early_;
    shm::LogitsForecast forecast_;
    LeanRows lean_;
    std::vector<Exhausted> exhausted_;  // [slot]
    PerStep<std::uint32_t> prepared_;
    PerStep<std::uint32_t> rehearsed_;
    PerStep<std::uint32_t> parts_decided_;
    VoidWatch void_watch_;
    LateRankWatch late_ranks_;
    std::optional<AskedCapture> asked_;
    std::vector<CapturedColumn> captured_;  // [thread]
    std::atomic<std::uint64_t> decided_{0};
    std::atomic<std::uint64_t> busy_ns_{0};
    shm::Prefault prefault_;
};

}  // namespace croupier::daemon
