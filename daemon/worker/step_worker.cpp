#include "daemon/worker/step_worker.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "daemon/worker/column_preparation.h"
#include "daemon/worker/column_record.h"
#include "daemon/worker/stage_clock.h"
#include "shm/clock.h"
#include "shm/column_due.h"
#include "shm/logits_publisher.h"
#include "shm/step_claims.h"
#include "shm/step_window.h"

namespace croupier::daemon {

using proto::Stage;

namespace {

// How late a step must be, beyond twice a share's usual time, before a sampler decides others' columns. The
// first decision of a sequence in a process builds what it derives from the log, in hundreds of microseconds,
// and moves the sequence to that process: no price for a column that its own sampler is about to take, and
// none to speak of for one whose sampler is dead or has no processor. What needs no such state is as cheap
// for the one as for the other.
constexpr std::uint64_t kLateNs = 25'000;
constexpr std::uint64_t kVeryLateNs = 100'000;

// Since a sampler's last decision: what it touched is near as long.
constexpr std::uint64_t kWarmNs = 1'000'000;

void foresee(const shm::LogitsForecast& forecast, Look& look) {
    const std::uint64_t now = shm::monotonic_ns();
    look.soon = forecast.due(now);
    const std::uint64_t until = forecast.until_due(now);
    if (until > 0) look.until_soon = std::chrono::nanoseconds(until);
}

}  // namespace

StepWorker::StepWorker(proto::PlaneHeader& plane, std::vector<shm::JournalWriter> journals,
                       std::uint32_t index, std::uint32_t threads, int event_fd, Captures captures)
    : plane_(&plane),
      entry_(&plane.samplers[index]),
      index_(index),
      incarnation_(entry_->incarnation.load(std::memory_order_acquire)),
      rehearses_(threads == 1 && entry_->restarts.load(std::memory_order_relaxed) == 0),
      journals_(std::move(journals)),
      captures_(std::move(captures)),
      event_fd_(event_fd),
      races_(threads),
      team_(threads) {}

void StepWorker::make_room(const SessionView& session) {
    const std::uint32_t vocab = session.segment().geometry().vocab;
    auto& of_vocab = workspaces_[vocab];
    while (of_vocab.size() < team_.count()) of_vocab.push_back(std::make_unique<sampler::Workspace>(vocab));
}

void StepWorker::keep_room_of(const std::set<std::uint32_t>& vocabularies) {
    std::erase_if(workspaces_, [&](const auto& room) { return !vocabularies.contains(room.first); });
}

Look StepWorker::look(SessionView& session, std::uint64_t slice_ns) {
    Look result;
    if (!session.served()) return result;
    slice_ends_ = slice_ns == kEndless ? kEndless : shm::monotonic_ns() + slice_ns;
    const shm::Segment& segment = session.segment();
    const shm::StepWindow window = shm::steps_in_flight(segment);
    session.note_asked(captures_.asked(session.id()));
    session.states().note_look(++looks_);
    session.states().sweep(segment, first_lane());
    if (!window.sound) return result;  // the supervisor closes such a session and says why
    for (std::uint64_t number = window.first; number < window.end; ++number) {
        if (session.exhausted(number)) continue;
        if (number != window.first && slice_ends_ != kEndless && shm::monotonic_ns() >= slice_ends_) {
            result.pending = true;
            break;
        }
        const std::uint32_t slot = segment.slot_of(number);
        auto& head = segment.decision_head(slot);
        const std::uint32_t reopened = head.reopened.load(std::memory_order_acquire);
        CheckedStep step;
        const auto fault = check_record(segment, number, step);
        if (fault != proto::DecisionError::none) {
            // Without effect when the client has moved on to a newer step in this slot while we looked.
            shm::StepClaims(segment, number).refuse(fault);
            session.note_exhausted(number, reopened);
            continue;
        }
        session.shares().divide(segment, step, first_lane(), lanes());
        const bool has_own = !session.shares().all_own(step).empty();
        if (!logits_complete(segment, step)) {
            const bool is_next = !result.pending;
            // Who has none of its columns need not be awake for it.
            if (is_next && has_own) foresee(session.forecast(), result);
            result.own = result.own || has_own;
            result.pending = true;
            session.late_ranks().look(segment, step);
            result.decided += decide_sent(session, step);
            // What is ready goes before what is void.
            if (result.decided == 0) result.decided += answer_void(session, step);
            result.busy = await_logits(session, step, is_next && result.soon) || result.busy;
            continue;
        }
        const std::uint64_t now = note_logits_ready(segment, step, *entry_);
        const std::uint64_t ready = head.logits_ready_ns.load(std::memory_order_relaxed);
        if (has_own && ready != 0 && ready <= now) session.forecast().note(number, ready);
        const Share share = decide_claimable(session, step, nullptr, now);
        result.decided += share.decided;
        result.own = result.own || share.waits;
        result.busy = result.busy || share.follows || (share.waits && answers_come(segment, slot));
        const bool suspect = reopened != 0 && shm::StepClaims(segment, number).has_suspect(step.columns);
        result.suspect = result.suspect || suspect;
        if (share.whole && !suspect) {
            session.note_exhausted(number, reopened);
        } else {
            result.pending = true;
        }
    }
    return result;
}

bool StepWorker::await_logits(SessionView& session, const CheckedStep& step, bool soon) {
    const auto own = session.shares().all_own(step);
    if (own.empty()) return false;
    prefetch_column(session.segment(), step, own.front());
    const bool prepared = prepare_next(session, step) || (soon && rehearse_next(session, step));
    if (!session.early().wanted()) return prepared;
    return session.early().follow(session.segment(), step, own) || prepared;
}

std::size_t StepWorker::answer_void(SessionView& session, const CheckedStep& step) {
    const shm::Segment& segment = session.segment();
    std::vector<std::uint32_t>& watched = session.void_watch().look(segment, step);
    const shm::StepClaims claims(segment, step.step);
    std::size_t answered = 0;
    const auto settled = [&](std::uint32_t column) {
        const proto::ScheduleColumn asked = segment.schedule_columns(step.slot)[column];
        if (asked.sequence_slot >= segment.geometry().max_sequences) return true;
        const shm::Due due = shm::due_of(segment, step.step, column, asked).due;
        if (due != shm::Due::never) return due != shm::Due::later;
        // Who has it may die.
        if (!claims.try_claim_void(column, incarnation_)) return claims.is_committed(column);
        const bool last = claims.answer(column, step.columns, proto::DecisionError::voided);
        if (last) wake_supervisor(segment);
        keep_void(session, step, column, asked.sequence_uid, last);
        ++answered;
        return true;
    };
    watched.erase(std::remove_if(watched.begin(), watched.end(), settled), watched.end());
    return answered;
}

void StepWorker::keep_void(SessionView& session, const CheckedStep& step, std::uint32_t column,
                           std::uint64_t uid, bool last) {
    const std::uint64_t now = shm::monotonic_ns();
    journals_.front().write(record_of(session.id(), step, column, uid, proto::DecisionError::voided, now));
    if (!last) return;
    journals_.front().write(
        record_of(session.id(), step, session.segment().geometry().slots, LateRank{}, 0, now));
}

void StepWorker::wake_supervisor(const shm::Segment& segment) const {
    if (segment.header().zmq_stream.load(std::memory_order_relaxed) == 0) return;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(event_fd_, &one, sizeof(one));
}

template <typename Work>
void StepWorker::touch_column(const SessionView& session, const CheckedStep& step, std::uint32_t column,
                              Work work) {
    if (shm::StepClaims(session.segment(), step.step).is_suspect(column)) return;
    entry_->prepares.step.store(step.step, std::memory_order_relaxed);
    entry_->prepares.column.store(column, std::memory_order_relaxed);
    // No order between processes is needed: the supervisor reads it after the reaping, and of a thread its
    // own stores are in order.
    entry_->prepares.session_id.store(session.id(), std::memory_order_relaxed);
    work();
    entry_->prepares.session_id.store(0, std::memory_order_relaxed);
}

// One column a look, and of a long log a part: another step may be ready.
bool StepWorker::prepare_next(SessionView& session, const CheckedStep& step) {
    const auto own = session.shares().all_own(step);
    std::uint32_t& prepared = session.prepared(step);
    // A window's other rows are due when its head is decided, and have its history then.
    const auto columns = session.segment().schedule_columns(step.slot);
    while (prepared < own.size() && columns[own[prepared]].load().row != 0) ++prepared;
    // Before its turn nobody knows its position.
    if (prepared >= own.size() || !is_due(session.segment(), step, own[prepared])) return false;
    const std::size_t place = prepared++;
    if (place == 0) {
        for (PreparedRaces& races : races_) races.begin_step();
    }
    const std::size_t thread = session.shares().thread_of(step, place);
    touch_column(session, step, own[place], [&] {
        if (!prepare_column(session, step, own[place], lane(thread), races_[thread])) --prepared;
    });
    return true;
}

// One a look, too. Behind decisions that were made just now it would bring nothing near.
bool StepWorker::rehearse_next(SessionView& session, const CheckedStep& step) {
    std::uint32_t& rehearsed = session.rehearsed(step);
    if (!rehearses_ || rehearsed >= session.prepared(step)) return false;
    SentColumns sent(session.segment(), step);
    sent.look();
    // What a device writes is looked at by nobody meanwhile.
    if (sent.parts() != 0) return false;
    if (shm::monotonic_ns() - last_decided_ns_ < kWarmNs) return false;
    const std::size_t place = rehearsed++;
    const std::uint32_t column = session.shares().all_own(step)[place];
    const std::size_t thread = session.shares().thread_of(step, place);
    touch_column(session, step, column, [&] {
        rehearse_column(session, step, column, lane(thread), races_[thread],
                        workspace(session.segment().geometry().vocab, thread));
    });
    return true;
}

bool StepWorker::decide_suspect(SessionView& session) {
    const shm::Segment& segment = session.segment();
    const shm::StepWindow window = shm::steps_in_flight(segment);
    for (std::uint64_t number = window.first; window.sound && number < window.end; ++number) {
        CheckedStep step;
        if (check_record(segment, number, step) != proto::DecisionError::none) continue;
        if (!logits_complete(segment, step)) continue;
        // This sampler may not have looked at it yet.
        session.shares().divide(segment, step, first_lane(), lanes());
        const shm::StepClaims claims(segment, number);
        for (std::uint32_t column = 0; column < step.columns; ++column) {
            if (!is_due(segment, step, column) || !claims.try_claim_suspect(column, incarnation_)) continue;
            DrawTally tally;
            const OneDecision one = decide_one(session, step, column, 0, shm::monotonic_ns(), tally);
            if (one.deferred) claims.give_back(column, incarnation_, shm::StepClaims::kSuspect);
            tally.give_to(segment.header());
            return true;
        }
    }
    return false;
}

std::size_t StepWorker::decide_sent(SessionView& session, const CheckedStep& step) {
    SentColumns sent(session.segment(), step);
    sent.look();
    std::uint32_t& decided = session.parts_decided(step);
    if ((sent.parts() & ~decided) == 0) return 0;
    const Share share = decide_claimable(session, step, &sent, shm::monotonic_ns());
    // What waits for columns of an earlier step or of its window is looked at again, and so is a long
    // history; what waits for more of its row, with the rest.
    const bool again = share.follows || (share.waits && (step.follows || step.windows));
    if (!again) decided = sent.parts();
    return share.decided;
}

StepWorker::Share StepWorker::decide_claimable(SessionView& session, const CheckedStep& step,
                                               const SentColumns* sent, std::uint64_t now) {
    last_decided_ns_ = now;
    // One thread decides in place: an arena would only add its hand-over to every small step.
    if (team_.count() == 1) return decide_share(session, step, sent, 0, now);
    std::atomic<std::size_t> decided{0};
    std::atomic<bool> whole{true};
    std::atomic<bool> waits{false};
    std::atomic<bool> follows{false};
    team_.run([&](std::size_t thread) {
        const Share share = decide_share(session, step, sent, thread, now);
        decided.fetch_add(share.decided, std::memory_order_relaxed);
        if (!share.whole) whole.store(false, std::memory_order_relaxed);
        if (share.waits) waits.store(true, std::memory_order_relaxed);
        if (share.follows) follows.store(true, std::memory_order_relaxed);
    });
    return {decided.load(std::memory_order_relaxed), whole.load(std::memory_order_relaxed),
            waits.load(std::memory_order_relaxed), follows.load(std::memory_order_relaxed)};
}

std::uint64_t StepWorker::late_by(const SessionView& session, const CheckedStep& step, std::size_t share,
                                  std::uint64_t now) {
    const auto& head = session.segment().decision_head(step.slot);
    const std::uint64_t ready = head.logits_ready_ns.load(std::memory_order_relaxed);
    const std::uint64_t due = ready + 2 * session.usual_ns() * share;
    return now > due ? now - due : 0;
}

StepWorker::Share StepWorker::decide_share(SessionView& session, const CheckedStep& step,
                                           const SentColumns* sent, std::size_t thread, std::uint64_t now) {
    const shm::Segment& segment = session.segment();
    const LeanRows& lean = session.lean();
    const auto is_there = [&](std::uint32_t column) { return sent == nullptr || sent->has(column); };
    const shm::StepClaims claims(segment, step.step);
    Share share;
    DrawTally tally;
    bool waits = false;  // for a column of an earlier step, or for more of a row
    const auto own = session.shares().own(step, thread);
    const auto next = [&](std::size_t place) {
        while (place < own.size() && (!is_there(own[place]) || claims.is_committed(own[place]))) ++place;
        return place;
    };
    for (std::size_t place = next(0), after = 0; place < own.size(); place = after) {
        after = next(place + 1);
        const std::uint32_t column = own[place];
        if (!is_due(segment, step, column)) {
            waits = true;
            continue;
        }
        if (!follow_history_for(session, step, column, thread)) {
            waits = share.follows = true;
            now = shm::monotonic_ns();
            share.whole = now < slice_ends_;
            if (!share.whole) break;
            continue;
        }
        if (!claims.try_claim(column, incarnation_)) continue;
        // The next ones' lines come over while this one is decided.
        if (after < own.size()) {
            prefetch_column(segment, step, own[after]);
            lean.prefetch(segment, step, own[after]);
            if (const std::size_t third = next(after + 1); third < own.size())
                lean.prefetch_head(segment, step, own[third]);
        }
        const OneDecision one = decide_one(session, step, column, thread, now, tally);
        now = one.end;
        if (one.deferred) {
            claims.give_back(column, incarnation_);
            waits = true;
        } else {
            ++share.decided;
        }
        share.whole = now < slice_ends_;
        if (!share.whole) break;
    }
    if (sent != nullptr) share.whole = false;
    if (share.whole) decide_others(session, step, thread, now, tally, share);
    if (waits) share.whole = false;
    share.waits = waits;
    if (share.decided > 0) tally.give_to(segment.header());
    if (!share.whole && sent == nullptr) share.whole = shm::step_complete(segment, step.slot, step.columns);
    return share;
}

// Other sessions would wait for all of a long history if it were followed in the column's decision.
bool StepWorker::follow_history_for(SessionView& session, const CheckedStep& step, std::uint32_t column,
                                    std::size_t thread) {
    // What is touched is noted in one place for all threads of a sampler.
    if (slice_ends_ == kEndless || team_.count() > 1) return true;
    if (!has_long_history(session, step, column, lane(thread))) return true;
    bool whole = true;
    touch_column(session, step, column, [&] { whole = follow_history(session, step, column, lane(thread)); });
    return whole;
}

void StepWorker::decide_others(SessionView& session, const CheckedStep& step, std::size_t thread,
                               std::uint64_t now, DrawTally& tally, Share& share) {
    const StepShares& shares = session.shares();
    const shm::StepClaims claims(session.segment(), step.step);
    const auto columns = session.segment().schedule_columns(step.slot);
    const std::size_t own = shares.own(step, thread).size();
    if (own == step.columns) return;
    // From another column on than others do, so that they seldom meet.
    const auto first =
        static_cast<std::uint32_t>(std::uint64_t{lane(thread).number} * step.columns / lanes());
    for (const bool dear : {false, true}) {
        if (late_by(session, step, own, now) <= (dear ? kVeryLateNs : kLateNs)) {
            share.whole = false;
            return;
        }
        for (std::uint32_t i = 0; i < step.columns; ++i) {
            const std::uint32_t column = first + i < step.columns ? first + i : first + i - step.columns;
            if (shares.lane_of(step, column) == lane(thread).number || claims.is_committed(column)) continue;
            const std::uint32_t slot = columns[column].load().sequence_slot;
            const bool underived =
                has_long_history(session, step, column, lane(thread)) ||
                (shares.owned(step, column) &&
                 !session.states().knows(thread, slot, admission_in(session.segment(), slot)));
            // The dear ones' turn is all the others': a window's first row makes the rest of it cheap.
            if (underived && !dear) continue;
            if (!is_due(session.segment(), step, column)) {
                share.whole = false;
                continue;
            }
            if (!follow_history_for(session, step, column, thread)) {
                share.whole = false;
                share.follows = true;
                continue;
            }
            if (!claims.try_claim(column, incarnation_)) continue;
            const OneDecision one = decide_one(session, step, column, thread, now, tally);
            now = one.end;
            if (one.deferred) claims.give_back(column, incarnation_);
            if (!one.deferred) ++share.decided;
            if (one.deferred || now >= slice_ends_) share.whole = false;
            if (now >= slice_ends_) return;
        }
    }
}

void StepWorker::give_captured(SessionView& session, const CheckedStep& step, std::uint32_t column,
                               std::size_t thread, const proto::Decision& decision) const {
    CapturedColumn& captured = session.captured(thread);
    if (const auto& asked = session.asked())
        captures_.give(*asked, captured.take(*asked, session.id(), step.step, column, decision));
    captured.forget();
}

StepWorker::OneDecision StepWorker::decide_one(SessionView& session, const CheckedStep& step,
                                               std::uint32_t column, std::size_t thread, std::uint64_t begin,
                                               DrawTally& tally) {
    const shm::Segment& segment = session.segment();
    entry_->heartbeat_ns.store(begin, std::memory_order_relaxed);
    auto& memory = workspace(segment.geometry().vocab, thread);
    const DecidedColumn decided = decide_column(session, step, column, lane(thread), races_[thread], memory);
    const std::uint64_t ready = ready_since(segment, step, *entry_);
    const shm::StepClaims claims(segment, step.step);
    shm::JournalWriter& journal = journals_[thread];
    if (decided.deferred) {
        const std::uint64_t end = shm::monotonic_ns();
        entry_->busy_ns.fetch_add(end - begin, std::memory_order_relaxed);
        session.note_time(end - begin, false);
        journal.write(record_of(session.id(), step, column, decided, memory.answer(), {ready, begin, end}));
        return {end, true};
    }
    // One reading of the clock for the end of this decision and its commit: a column of a small step takes
    // about a microsecond, and a reading a fortieth of that.
    const std::uint64_t end = shm::monotonic_ns();
    const bool last = claims.commit(column, step.columns, decided.decision, end);
    if (session.captured(thread).is_kept()) give_captured(session, step, column, thread, decided.decision);
    tally.add(memory.answer(), decided.hot_choice, decided.read_early, end - begin);
    if (ready != 0) {
        const std::uint64_t delay = begin > ready ? begin - ready : 0;
        tally.add_delay(delay);
        record_stage(*entry_, Stage::claim_wait, delay);
    }
    record_stage(*entry_, Stage::decide, end - begin);
    entry_->columns.fetch_add(1, std::memory_order_relaxed);
    entry_->busy_ns.fetch_add(end - begin, std::memory_order_relaxed);
    session.note_time(end - begin, true);
    journal.write(record_of(session.id(), step, column, decided, memory.answer(), {ready, begin, end}));
    if (!last) return {end};
    if (ready != 0) record_stage(*entry_, Stage::step, end > ready ? end - ready : 0);
    journal.write(
        record_of(session.id(), step, segment.geometry().slots, session.late_ranks().of(step), ready, end));
    wake_supervisor(segment);
    return {end};
}

}  // namespace croupier::daemon
