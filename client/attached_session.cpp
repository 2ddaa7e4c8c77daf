#include "client/attached_session.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

namespace croupier::client {

using shm::Errc;

namespace {

shm::Result<std::optional<DecisionStream>> choose_stream(DaemonLink& link, const shm::Segment& segment,
                                                         bool over_zmq) {
    // What an earlier client of a resumed session chose still stands in the segment.
    const bool streaming = segment.header().zmq_stream.load(std::memory_order_acquire) != 0;
    if (streaming != over_zmq) {
        if (auto configured = link.configure(over_zmq); !configured) return configured.error();
    }
    std::optional<DecisionStream> stream;
    if (!over_zmq) return stream;
    auto connected = link.connect_decisions();
    if (!connected) return connected.error();
    stream.emplace(std::move(connected).value());
    return stream;
}

}  // namespace

AttachedSession::AttachedSession(DaemonLink link, std::unique_ptr<shm::Segment> segment,
                                 shm::SchedulePublisher publisher, shm::Bell bell)
    : link_(std::move(link)),
      segment_(std::move(segment)),
      publisher_(publisher),
      bell_(std::move(bell)),
      sequences_(*segment_),
      uids_in_step_(segment_->geometry().slots) {
    recall_steps_in_flight();
}

shm::Result<std::unique_ptr<AttachedSession>> AttachedSession::open(const croupier_open_options& options) {
    auto request = check_options(options);
    if (!request) return request.error();
    auto link = DaemonLink::open(request.value());
    if (!link) return link.error();
    const bool resumed = link.value().facts().resumed;
    auto session = attach(link.value(), request.value());
    if (session) return session;
    // A session that nobody can use should not hold its memory; one that was there before stays as it was.
    if (!resumed) (void)link.value().close();
    return session.error();
}

shm::Result<std::unique_ptr<AttachedSession>> AttachedSession::attach(DaemonLink& link,
                                                                      const OpenRequest& request) {
    const SessionFacts& facts = link.facts();
    auto attached = shm::Segment::attach(facts.segment_path, shm::Access::read_write);
    if (!attached) return attached.error();
    auto segment = std::make_unique<shm::Segment>(std::move(attached).value());
    if (auto fault = unfit_geometry(request.geometry, segment->geometry())) {
        return shm::fail(Errc::bad_geometry, "session " + request.name + " cannot be resumed: " + *fault +
                                                 "; open it with the options it was opened with");
    }
    auto bell = shm::Bell::attach(facts.shm_directory, facts.instance);
    if (!bell) return bell.error();
    auto publisher = shm::SchedulePublisher::attach(*segment);
    if (!publisher) return publisher.error();
    auto stream = choose_stream(link, *segment, request.decisions_over_zmq);
    if (!stream) return stream.error();
    std::unique_ptr<AttachedSession> session(
        new AttachedSession(std::move(link), std::move(segment), publisher.value(), std::move(bell).value()));
    session->stream_ = std::move(stream).value();
    if (request.randoms_supplied) session->record_flags_ |= proto::kRandomsSupplied;
    if (session->stream_) session->subscribe();
    return session;
}

void AttachedSession::subscribe() {
    stream_->keep_subscribed(segment_->header().daemon_generation.load(std::memory_order_acquire));
}

void AttachedSession::recall_steps_in_flight() {
    for (std::uint64_t step = publisher_.next_to_take(); step < publisher_.next_to_publish(); ++step) {
        const std::uint32_t slot = segment_->slot_of(step);
        const std::uint32_t count =
            std::min(segment_->schedule(slot).columns, segment_->geometry().max_batch);
        const std::span columns(segment_->schedule_columns(slot), count);
        for (const proto::ScheduleColumn& column : columns) {
            uids_of(step).push_back(column.sequence_uid);
            // A uid that is not live any more is told by the step's own decision.
            (void)sequences_.enter(column.sequence_uid, step);
        }
    }
}

shm::Result<bool> AttachedSession::check_usable() const {
    auto allowed = publisher_.may_publish();
    // Steps in flight are finished while the daemon drains.
    if (!allowed && allowed.error().code == Errc::draining) return true;
    return allowed;
}

shm::Result<bool> AttachedSession::add(const croupier_sequence& sequence) {
    if (auto usable = check_usable(); !usable) return usable;
    auto admitted = check_sequence(sequence, segment_->geometry().vocab);
    if (!admitted) return admitted.error();
    return sequences_.add(admitted.value().sequence);
}

shm::Result<bool> AttachedSession::finish(std::uint64_t uid) {
    if (auto usable = check_usable(); !usable) return usable;
    return sequences_.remove(uid);
}

std::uint32_t AttachedSession::in_flight() const {
    return static_cast<std::uint32_t>(publisher_.next_to_publish() - publisher_.next_to_take());
}

shm::Result<bool> AttachedSession::build_columns(std::span<const croupier_column> asked, std::uint64_t step) {
    columns_.clear();
    std::uint32_t masks = 0;
    for (const croupier_column& from : asked) {
        auto column = sequences_.enter(from.uid, step);
        if (!column) return column.error();
        if (from.mask != nullptr) column.value().mask_row = ++masks;
        columns_.push_back(column.value());
    }
    const std::uint32_t room = segment_->geometry().mask_rows;
    if (masks <= room) return true;
    return shm::fail(Errc::bad_argument, "the step carries " + std::to_string(masks) +
                                             " grammar masks, the session was opened for " +
                                             std::to_string(room) + "; open it with a larger mask_rows");
}

void AttachedSession::copy_masks(std::span<const croupier_column> asked) const {
    const std::size_t words = (std::size_t{segment_->geometry().vocab} + 31) / 32;
    std::uint32_t row = 0;
    for (const croupier_column& from : asked) {
        if (from.mask == nullptr) continue;
        std::memcpy(publisher_.next_mask_row(row++), from.mask, words * sizeof(std::uint32_t));
    }
}

shm::Result<std::uint64_t> AttachedSession::submit(std::span<const croupier_column> asked) {
    // First of all: what is wrong with the columns is of no interest to a client that was fenced.
    if (auto allowed = publisher_.may_publish(); !allowed) return allowed.error();
    const std::uint64_t step = publisher_.next_to_publish();
    // The stream owes nothing while no step is in flight: its silence is counted from here.
    if (stream_ && in_flight() == 0) stream_->note_progress();
    const bool room =
        in_flight() < segment_->geometry().slots && asked.size() <= segment_->geometry().max_batch;
    // Without room publish() says so, and no mask may be copied: that slot belongs to a step in flight.
    if (!room) {
        columns_.resize(asked.size());
        return publisher_.publish(columns_);
    }
    auto built = build_columns(asked, step);
    if (built) copy_masks(asked);
    auto published =
        built ? publisher_.publish(columns_, record_flags_) : shm::Result<std::uint64_t>(built.error());
    if (!published) {
        for (const croupier_column& column : asked) sequences_.leave(column.uid, step);
        return published;
    }
    auto& uids = uids_of(step);
    uids.clear();
    for (const croupier_column& column : asked) uids.push_back(column.uid);
    bell_.ring();
    return published;
}

}  // namespace croupier::client
