#include "client/attached_session.h"

#include <atomic>
#include <utility>

#include "client/known_structs.h"
#include "client/relayed_ring.h"

namespace croupier::client {

using shm::Errc;

namespace {

// `streaming`: what an earlier client of a resumed session chose, which still stands in the segment.
shm::Result<std::optional<DecisionStream>> choose_stream(DaemonLink& link, bool streaming, bool over_zmq) {
    if (streaming != over_zmq) {
        CROUPIER_TRY(link.configure(over_zmq));
    }
    std::optional<DecisionStream> stream;
    if (!over_zmq) return stream;
    CROUPIER_TRY_VALUE(connected, link.connect_decisions());
    stream.emplace(std::move(connected));
    return stream;
}

template <typename Place>
shm::Result<std::unique_ptr<SchedulePlace>> as_place(shm::Result<std::unique_ptr<Place>> made) {
    if (!made) return made.error();
    return std::unique_ptr<SchedulePlace>(std::move(made).value());
}

shm::Result<std::unique_ptr<SchedulePlace>> find_place(const SessionFacts& facts,
                                                       const OpenRequest& request) {
    if (request.relay) return as_place(RelayedRing::attach(*request.relay, facts, request));
    return as_place(LocalRing::attach(facts.segment_path, request.randoms_supplied));
}

}  // namespace

AttachedSession::AttachedSession(DaemonLink link, std::unique_ptr<SchedulePlace> place, LocalRing* ring,
                                 std::optional<DecisionStream> stream)
    : link_(std::move(link)), place_(std::move(place)), ring_(ring), stream_(std::move(stream)) {
    if (stream_) subscribe();
}

shm::Result<std::unique_ptr<AttachedSession>> AttachedSession::open(const croupier_open_options& options) {
    CROUPIER_TRY_VALUE(request, check_options(options));
    CROUPIER_TRY_VALUE(link, DaemonLink::open(request));
    const bool resumed = link.facts().resumed;
    auto session = attach(link, request);
    if (session) return session;
    // A session that nobody can use should not hold its memory; one that was there before stays as it was.
    if (!resumed) (void)link.close();
    return session.error();
}

shm::Result<std::unique_ptr<AttachedSession>> AttachedSession::attach(DaemonLink& link,
                                                                      const OpenRequest& request) {
    CROUPIER_TRY_VALUE(place, find_place(link.facts(), request));
    if (auto fault = unfit_geometry(request.geometry, place->geometry())) {
        const bool resumed = link.facts().resumed;
        return shm::fail(Errc::bad_geometry,
                         "session " + request.name +
                             (resumed ? " cannot be resumed: " : " cannot be opened: ") + *fault +
                             (resumed ? "; open it with the options it was opened with"
                                      : "; the daemon is older than this library: update it"));
    }
    auto* ring = dynamic_cast<LocalRing*>(place.get());
    const bool streaming = ring != nullptr && ring->header().zmq_stream.load(std::memory_order_acquire) != 0;
    CROUPIER_TRY_VALUE(stream, choose_stream(link, streaming, request.decisions_over_zmq));
    return std::unique_ptr<AttachedSession>(
        new AttachedSession(std::move(link), std::move(place), ring, std::move(stream)));
}

shm::Result<int> AttachedSession::event_descriptor() {
    if (stream_) return stream_->descriptor();
    if (signal_ == nullptr) {
        CROUPIER_TRY_VALUE(started, ring_->start_signal());
        signal_ = std::move(started);
    }
    return signal_->descriptor();
}

std::uint32_t AttachedSession::in_flight() const {
    return static_cast<std::uint32_t>(place_->next_to_publish() - place_->next_to_take());
}

shm::Result<bool> AttachedSession::add(const croupier_sequence& given) {
    CROUPIER_TRY_VALUE(known, known_sequence(given));
    return place_->add(known.linked());
}

shm::Result<std::uint64_t> AttachedSession::submit(const croupier_column* columns, std::size_t count,
                                                   std::size_t size) {
    CROUPIER_TRY_VALUE(asked, known_columns(columns, count, size, columns_));
    // The stream owes nothing while no step is in flight: its silence is counted from here.
    if (stream_ && in_flight() == 0) stream_->note_progress();
    return place_->submit(asked);
}

}  // namespace croupier::client
