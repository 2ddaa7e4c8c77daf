#include "shm/logits_publisher.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "shm/process.h"
#include "shm/schedule_publisher.h"
#include "shm/step_window.h"

namespace croupier::shm {

using proto::ReadyWord;
using proto::SessionCounter;

namespace {

// Ready words hold 16 bits of the epoch, and 0 means "never attached".
std::uint32_t epoch_tag(std::uint32_t epoch) {
    return epoch & 0xFFFFU;
}

// A driver takes back a killed process's device within seconds.
constexpr std::chrono::seconds kEndOfPredecessor{10};

// What a ready word counts once the rank's part of a step is all there.
std::uint32_t complete_count(const Segment& segment, std::uint32_t rank) {
    return segment.geometry().is_lean() ? ReadyWord::kLean : segment.geometry().tiles(rank);
}

ProcessIdentity author_of(const proto::WriterCell& cell) {
    return {cell.pid.load(std::memory_order_acquire), cell.started.load(std::memory_order_relaxed),
            cell.pid_namespace.load(std::memory_order_relaxed)};
}

// The pid is 0 while the rest changes: who dies in between has stored nothing yet, and nobody waits for it.
void name_author(proto::WriterCell& cell) {
    const ProcessIdentity author = this_process();
    cell.pid.store(0, std::memory_order_release);
    cell.started.store(author.started, std::memory_order_relaxed);
    cell.pid_namespace.store(author.pid_namespace, std::memory_order_relaxed);
    cell.pid.store(author.pid, std::memory_order_release);
}

}  // namespace

Result<LogitsPublisher> LogitsPublisher::attach(Segment& segment, std::uint32_t rank) {
    auto& header = segment.header();
    if (rank >= segment.geometry().tp) {
        return fail(Errc::bad_argument, "rank " + std::to_string(rank) + " does not exist: session " +
                                            header.name + " has ranks 0 to " +
                                            std::to_string(segment.geometry().tp - 1));
    }
    auto& cell = header.writers[rank];
    if (!segment.hold(writer_role(rank))) {
        return fail(Errc::already_held, "rank " + std::to_string(rank) + " of session " + header.name +
                                            " is held by the live writer with pid " +
                                            std::to_string(cell.pid.load()));
    }
    if (!await_end(author_of(cell), kEndOfPredecessor)) {
        segment.release(writer_role(rank));
        return fail(Errc::already_held, "rank " + std::to_string(rank) + " of session " + header.name +
                                            " was written by pid " + std::to_string(cell.pid.load()) +
                                            ", which has dropped its lock and does not end: its device may "
                                            "still store; end it, then attach again");
    }
    LogitsPublisher publisher(segment, rank);
    name_author(cell);
    cell.attached.fetch_add(1, std::memory_order_relaxed);
    publisher.begin_epoch(Rows::with_predecessor);
    header.counter(SessionCounter::writers_attached).fetch_add(1, std::memory_order_relaxed);
    return publisher;
}

void LogitsPublisher::leave() const {
    segment_->header().writers[rank_].pid.store(0, std::memory_order_release);
}

// A lean step that is not decided may need more of its rows, which went with the process that had them.
bool LogitsPublisher::vouches_for(std::uint64_t step, ReadyWord ready, Rows rows) const {
    if (ready.tiles != complete_count(*segment_, rank_) || !randoms_await_nobody(step)) return false;
    if (!segment_->geometry().is_lean() || rows == Rows::here) return true;
    const std::uint32_t slot = segment_->slot_of(step);
    const std::uint32_t columns = std::min(record(step).columns, segment_->geometry().max_batch);
    return step_complete(*segment_, slot, columns);
}

// Vouches for the slices that were completed before, and withdraws the others: a part of a slice is written
// again from its first tile.
void LogitsPublisher::begin_epoch(Rows rows) {
    auto& cell = segment_->header().writers[rank_];
    epoch_ = cell.epoch.load(std::memory_order_relaxed) + 1;
    if (epoch_tag(epoch_) == 0) ++epoch_;
    cell.epoch.store(epoch_, std::memory_order_release);
    const StepWindow window = steps_in_flight(*segment_);
    if (!window.sound) return;
    for (std::uint64_t step = window.first; step < window.end; ++step) {
        const std::uint32_t slot = segment_->slot_of(step);
        auto& word = segment_->ready(slot, rank_).word;
        ReadyWord ready = ReadyWord::unpack(word.load(std::memory_order_acquire));
        if (ready.step_tag != ReadyWord::tag_of(step)) continue;
        const bool whole = vouches_for(step, ready, rows);
        const ReadyWord own{epoch_tag(epoch_), ready.step_tag, whole ? ready.tiles : 0};
        if (whole && rank_ == 0) {
            segment_->randoms_ready(slot).store(ReadyWord{own.epoch, own.step_tag, 1}.pack(),
                                                std::memory_order_release);
        }
        word.store(own.pack(), std::memory_order_release);
    }
    // SYNC: release; pairs with the acquire fences in SentColumn::is_over and EarlyMaxima::finish: who has
    // read a byte that is stored from here on into a slice that is withdrawn sees the epoch or the word that
    // says so. The stores above order only what came before them.
    std::atomic_thread_fence(std::memory_order_release);
}

// A slice of rank 0 without the randoms that go with it is not vouched for: nobody would supply them.
bool LogitsPublisher::randoms_await_nobody(std::uint64_t step) const {
    const std::uint32_t slot = segment_->slot_of(step);
    if (rank_ != 0 || (segment_->schedule(slot).flags & proto::kRandomsSupplied) == 0) return true;
    const std::uint64_t word = segment_->randoms_ready(slot).load(std::memory_order_acquire);
    return ReadyWord::unpack(word).step_tag == ReadyWord::tag_of(step);
}

bool LogitsPublisher::is_partial(std::uint64_t step) const {
    const std::uint32_t tiles = tiles_ready(*segment_, step, rank_);
    return tiles > 0 && tiles < segment_->geometry().tiles(rank_);
}

Result<bool> LogitsPublisher::begin_anew() {
    CROUPIER_TRY(not_fenced());
    begin_epoch(Rows::here);
    return true;
}

std::optional<std::uint64_t> LogitsPublisher::next_step(std::uint64_t from) const {
    for (StepWindow window = steps_in_flight(*segment_); window.sound;) {
        std::uint64_t step = std::max(window.first, from);
        while (step < window.end && slice_ready(*segment_, step, rank_)) ++step;
        if (step >= window.end) return std::nullopt;
        // The step may have been ready, decided and taken since the look at the window, and its words reset
        // for the slot's next step. Then `taken` is beyond it here: publish() has a fence in between.
        window = steps_in_flight(*segment_);
        if (window.sound && step >= window.first) return step;
    }
    return std::nullopt;
}

const proto::ScheduleRecord& LogitsPublisher::record(std::uint64_t step) const {
    return segment_->schedule(segment_->slot_of(step));
}

proto::StoredArray<const proto::ScheduleColumn> LogitsPublisher::columns(std::uint64_t step) const {
    return segment_->schedule_columns(segment_->slot_of(step));
}

void* LogitsPublisher::slice(std::uint64_t step) const {
    return segment_->logits(segment_->slot_of(step), rank_);
}

std::span<float> LogitsPublisher::maxima(std::uint64_t step) const {
    return segment_->maxima(segment_->slot_of(step), rank_);
}

Result<bool> LogitsPublisher::not_fenced() const {
    auto& header = segment_->header();
    const auto state = header.state.load(std::memory_order_acquire);
    if (state == proto::SessionState::closed) {
        return fail(Errc::session_closed, std::string("session ") + header.name +
                                              " was closed: logits of rank " + std::to_string(rank_) +
                                              " are no longer read");
    }
    if (state == proto::SessionState::fenced ||
        header.writers[rank_].epoch.load(std::memory_order_acquire) != epoch_) {
        header.counter(SessionCounter::stale_epoch_refused).fetch_add(1, std::memory_order_relaxed);
        return fail(Errc::stale_epoch, "rank " + std::to_string(rank_) + " of session " + header.name +
                                           " was fenced while this writer was away (its epoch " +
                                           std::to_string(epoch_) + " is over); attach to the session again");
    }
    return true;
}

Result<bool> LogitsPublisher::may_publish(std::uint64_t step) const {
    CROUPIER_TRY(not_fenced());
    const StepWindow window = steps_in_flight(*segment_);
    if (step < window.first || step >= window.end) return not_in_flight(step, window.first, window.end);
    return true;
}

Result<ReadyWord> LogitsPublisher::begin(std::uint64_t step) const {
    CROUPIER_TRY(may_publish(step));
    return ReadyWord{epoch_tag(epoch_), ReadyWord::tag_of(step), 0};
}

Result<bool> LogitsPublisher::publish(std::uint64_t step, std::uint32_t tiles) {
    if (segment_->geometry().is_lean())
        return fail(Errc::bad_argument, "the session's transport is lean: its writers publish no tiles");
    if (tiles > segment_->geometry().tiles(rank_)) {
        return fail(Errc::bad_argument, "rank " + std::to_string(rank_) + " has " +
                                            std::to_string(segment_->geometry().tiles(rank_)) +
                                            " tiles, not " + std::to_string(tiles));
    }
    return store_tiles(step, tiles);
}

Result<bool> LogitsPublisher::publish_all(std::uint64_t step) {
    return store_tiles(step, complete_count(*segment_, rank_));
}

Result<bool> LogitsPublisher::store_tiles(std::uint64_t step, std::uint32_t tiles) const {
    CROUPIER_TRY_VALUE(word, begin(step));
    word.tiles = tiles;
    // SYNC: release; pairs with the acquire in slice_ready: who sees the count sees the tiles and
    // their maxima.
    segment_->ready(segment_->slot_of(step), rank_).word.store(word.pack(), std::memory_order_release);
    return true;
}

Result<bool> LogitsPublisher::publish_randoms(std::uint64_t step) {
    if (segment_->geometry().is_lean())
        return fail(Errc::bad_argument, "the session's transport is lean, which takes no randoms");
    CROUPIER_TRY(may_publish(step));
    // SYNC: release; pairs with the acquire in randoms_ready.
    segment_->randoms_ready(segment_->slot_of(step))
        .store(ReadyWord{epoch_tag(epoch_), ReadyWord::tag_of(step), 1}.pack(), std::memory_order_release);
    return true;
}

namespace {

// The word, where it is this step's and of the rank's present epoch.
std::optional<ReadyWord> present(const Segment& segment, std::uint64_t step, std::uint32_t rank,
                                 const std::atomic<std::uint64_t>& word) {
    // acquire: who sees the count sees the tiles.
    const ReadyWord ready = ReadyWord::unpack(word.load(std::memory_order_acquire));
    const std::uint32_t epoch = segment.header().writers[rank].epoch.load(std::memory_order_acquire);
    if (ready.step_tag != ReadyWord::tag_of(step) || ready.epoch != epoch_tag(epoch)) return std::nullopt;
    return ready;
}

}  // namespace

std::uint32_t tiles_ready(const Segment& segment, std::uint64_t step, std::uint32_t rank) {
    const auto ready = present(segment, step, rank, segment.ready(segment.slot_of(step), rank).word);
    return ready ? ready->tiles : 0;
}

bool slice_ready(const Segment& segment, std::uint64_t step, std::uint32_t rank) {
    const auto ready = present(segment, step, rank, segment.ready(segment.slot_of(step), rank).word);
    return ready && ready->tiles == complete_count(segment, rank);
}

bool randoms_ready(const Segment& segment, std::uint64_t step) {
    return present(segment, step, 0, segment.randoms_ready(segment.slot_of(step))).has_value();
}

ReadyWord lean_word(const Segment& segment, std::uint64_t step, std::uint32_t rank) {
    const std::uint32_t epoch = segment.header().writers[rank].epoch.load(std::memory_order_acquire);
    return {epoch_tag(epoch), ReadyWord::tag_of(step), ReadyWord::kLean};
}

}  // namespace croupier::shm
