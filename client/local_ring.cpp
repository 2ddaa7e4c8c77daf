#include "client/local_ring.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "client/admission.h"
#include "shm/bell.h"
#include "shm/clock.h"

namespace croupier::client {

using shm::Errc;

std::size_t count_rows(std::span<const croupier_column> columns) {
    std::size_t rows = 0;
    for (const croupier_column& column : columns) rows += rows_of(column);
    return rows;
}

shm::Result<bool> check_room(std::span<const croupier_column> columns, const proto::Geometry& geometry) {
    const auto lacks = [](const std::string& what, std::uint32_t room, const std::string& option) {
        return shm::fail(Errc::bad_argument, "the step " + what + ", the session was opened for " +
                                                 std::to_string(room) + "; open it with a larger " + option);
    };
    if (geometry.max_windows != 0 && columns.size() > geometry.max_windows)
        return lacks("has " + std::to_string(columns.size()) + " columns", geometry.max_windows,
                     "max_windows");
    std::size_t masks = 0;
    for (const croupier_column& column : columns) masks += column.mask != nullptr ? rows_of(column) : 0;
    if (masks <= geometry.mask_rows) return true;
    return lacks("carries " + std::to_string(masks) + " grammar masks", geometry.mask_rows, "mask_rows");
}

LocalRing::LocalRing(std::unique_ptr<shm::Segment> segment, shm::SchedulePublisher publisher,
                     bool randoms_supplied)
    : segment_(std::move(segment)),
      publisher_(publisher),
      sequences_(*segment_),
      record_flags_(randoms_supplied ? proto::kRandomsSupplied : 0),
      uids_in_step_(segment_->geometry().slots),
      entries_in_step_(segment_->geometry().slots) {
    recall_steps_in_flight();
}

shm::Result<std::unique_ptr<LocalRing>> LocalRing::attach(const std::string& segment_path,
                                                          bool randoms_supplied) {
    CROUPIER_TRY_VALUE(attached, shm::Segment::attach(segment_path, shm::Access::read_write));
    auto segment = std::make_unique<shm::Segment>(std::move(attached));
    CROUPIER_TRY_VALUE(publisher, shm::SchedulePublisher::attach(*segment));
    shm::ring(segment->header().bell);
    return std::unique_ptr<LocalRing>(new LocalRing(std::move(segment), publisher, randoms_supplied));
}

void LocalRing::recall_steps_in_flight() {
    for (std::uint64_t step = publisher_.next_to_take(); step < publisher_.next_to_publish(); ++step) {
        const std::uint32_t slot = segment_->slot_of(step);
        const std::uint32_t count =
            std::min(segment_->schedule(slot).columns, segment_->geometry().max_batch);
        for (std::uint32_t index = 0; index < count; ++index) {
            const proto::ScheduleColumn column = segment_->schedule_columns(slot)[index];
            uids_in_step_[slot].push_back(column.sequence_uid);
            entries_in_step_[slot].push_back(sequences_.recall(column, step, index));
        }
    }
    sequences_.recalled_all();
}

shm::Result<bool> LocalRing::check_usable() {
    auto allowed = publisher_.may_publish();
    // While the daemon drains, it finishes the steps in flight.
    if (!allowed && allowed.error().code == Errc::draining) return true;
    return allowed;
}

shm::Result<bool> LocalRing::add(const croupier_sequence& sequence) {
    CROUPIER_TRY(check_usable());
    CROUPIER_TRY_VALUE(admitted, check_sequence(sequence, segment_->geometry()));
    return sequences_.add(admitted.sequence);
}

shm::Result<bool> LocalRing::fork(const shm::Fork& fork) {
    CROUPIER_TRY(check_usable());
    return sequences_.fork(fork);
}

shm::Result<bool> LocalRing::finish(std::uint64_t uid) {
    CROUPIER_TRY(check_usable());
    return ring_if_void(sequences_.finish(uid));
}

shm::Result<bool> LocalRing::truncate(std::uint64_t uid, std::uint32_t outputs) {
    CROUPIER_TRY(check_usable());
    return ring_if_void(sequences_.truncate(uid, outputs));
}

shm::Result<bool> LocalRing::check_append(std::uint64_t uid, std::size_t count) {
    CROUPIER_TRY(check_usable());
    return sequences_.check_append(uid, count);
}

shm::Result<bool> LocalRing::append(std::uint64_t uid, std::span<const std::int32_t> tokens) {
    CROUPIER_TRY(check_usable());
    return sequences_.append(uid, tokens);
}

shm::Result<std::vector<FoundText>> LocalRing::found_texts() const {
    std::vector<std::uint64_t> uids(sequences_.size());
    uids.resize(sequences_.list(uids));
    std::vector<FoundText> all;
    for (const std::uint64_t uid : uids) {
        CROUPIER_TRY_VALUE(found, sequences_.found_text(uid));
        all.push_back(std::move(found));
    }
    return all;
}

// Samplers can answer the void columns of the steps in flight now.
shm::Result<bool> LocalRing::ring_if_void(const shm::Result<bool>& in_flight) {
    if (in_flight && in_flight.value()) shm::ring(segment_->header().bell);
    return in_flight;
}

bool LocalRing::is_void(std::uint64_t step, std::size_t column) const {
    const LiveSequences::Entry* entry = entries_in_step_[segment_->slot_of(step)][column];
    return entry != nullptr && entry->is_void_in(step);
}

shm::Result<bool> LocalRing::build_columns(std::span<const croupier_column> asked, std::uint64_t step) {
    columns_.clear();
    entries_.clear();
    sequences_.begin_submit();
    for (const croupier_column& from : asked) sequences_.prefetch(from.uid);
    std::uint16_t masks = 0;
    for (const croupier_column& from : asked) {
        CROUPIER_TRY_VALUE(of, sequences_.ask(from.uid, step, rows_of(from)));
        proto::ScheduleColumn column = of.column;
        for (std::uint32_t row = 0; row < rows_of(from); ++row) {
            if (from.mask != nullptr) column.mask_row = ++masks;
            columns_.push_back(column);
            entries_.push_back(of.entry);
            // Only a head waits for another step.
            column.after_steps = column.after_column = 0;
            ++column.row;
            ++column.ticket;
            ++column.position;
        }
    }
    return check_room(asked, segment_->geometry());
}

void LocalRing::copy_masks(std::span<const croupier_column> asked) const {
    const std::size_t words = mask_words(segment_->geometry().vocab);
    std::uint32_t row = 0;
    for (const croupier_column& from : asked) {
        if (from.mask == nullptr) continue;
        for (std::uint32_t i = 0; i < rows_of(from); ++i)
            std::memcpy(publisher_.next_mask_row(row++), from.mask + i * words,
                        words * sizeof(std::uint32_t));
    }
}

shm::Result<std::uint64_t> LocalRing::submit(std::span<const croupier_column> asked) {
    // Checked first: a client that was fenced must get that error, whatever is wrong with its columns.
    CROUPIER_TRY(publisher_.may_publish());
    const std::uint64_t step = publisher_.next_to_publish();
    // No mask may be copied if the ring is full: the slot belongs to a step in flight.
    CROUPIER_TRY(publisher_.check_next(count_rows(asked)));
    CROUPIER_TRY(build_columns(asked, step));
    copy_masks(asked);
    const bool follows = std::any_of(columns_.begin(), columns_.end(),
                                     [](const auto& column) { return column.after_steps != 0; });
    const bool windows = columns_.size() > asked.size();
    if (windows && record_flags_ != 0) {
        return shm::fail(Errc::bad_argument,
                         "the step has windows of several rows, and the session's writer supplies randoms, "
                         "who knows no row's position: open the session without randoms_supplied");
    }
    const std::uint32_t flags = (follows ? proto::kFollows : 0) | (windows ? proto::kWindows : 0);
    auto published = publisher_.publish(columns_, record_flags_ | flags);
    if (!published) return published;
    const std::uint32_t slot = segment_->slot_of(step);
    uids_in_step_[slot].clear();
    for (std::uint32_t i = 0; i < entries_.size(); ++i) {
        uids_in_step_[slot].push_back(columns_[i].sequence_uid);
        sequences_.enter(*entries_[i], step, i, columns_[i]);
    }
    entries_in_step_[slot] = entries_;
    // Samplers only prepare the columns now. The writer of the logits wakes all of them.
    shm::ring_for_one(segment_->header().bell);
    return published;
}

shm::Result<bool> LocalRing::take(std::span<const croupier_decision> /*in the log already*/) {
    const std::uint64_t step = publisher_.next_to_take();
    // Comes first, because it tells which decisions ended their sequence.
    publisher_.take();
    const auto& entries = entries_in_step_[segment_->slot_of(step)];
    // The rows of a window stand one after another.
    for (auto first = entries.begin(), next = first; first != entries.end(); first = next) {
        next = std::find_if(first, entries.end(), [&](const auto* entry) { return entry != *first; });
        if (*first != nullptr) sequences_.leave(**first, step, static_cast<std::uint32_t>(next - first));
    }
    return true;
}

void LocalRing::note_waiting() {
    const std::uint64_t next = publisher_.next_to_take();
    if (waiting_noted_ == next || publisher_.next_complete()) return;
    publisher_.note_waiting_since(shm::monotonic_ns());
    waiting_noted_ = next;
}

}  // namespace croupier::client
