#include "client/attached_session.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "client/known_structs.h"
#include "proto/param_ranges.h"

namespace croupier::client {

using shm::Errc;

shm::Result<std::unique_ptr<AttachedSession>> AttachedSession::open(const croupier_open_options& options) {
    CROUPIER_TRY_VALUE(request, check_options(options));
    CROUPIER_TRY_VALUE(link, DaemonLink::open(request));
    std::unique_ptr<AttachedSession> session(new AttachedSession(std::move(link)));
    auto attached = session->attach(request);
    if (attached) return session;
    // A new session that nobody can use should not hold its memory. A resumed one stays as it was.
    if (!session->resumed()) (void)session->close();
    return attached.error();
}

shm::Result<bool> AttachedSession::attach(OpenRequest& request) {
    CROUPIER_TRY(attach_place(request));
    // The daemon has compared them too; the segment is the daemon's word against itself.
    if (auto difference = proto::geometry_difference(place_->geometry(), request.geometry)) {
        return shm::fail(Errc::bad_geometry, "the segment of session " + request.name +
                                                 " is not what was asked for: " + *difference);
    }
    if (!request.tokens.empty() && !request.without_texts) {
        CROUPIER_TRY(begin_texts(std::move(request.tokens)));
    }
    if (request.relay) return true;
    return choose_stream(request.decisions_over_zmq);
}

shm::Result<bool> AttachedSession::attach_place(const OpenRequest& request) {
    if (request.relay) {
        CROUPIER_TRY_VALUE(relayed, RelayedRing::attach(*request.relay, link_.facts(), request));
        relayed_ = relayed.get();
        messages_ = relayed_;
        place_ = std::move(relayed);
    } else {
        CROUPIER_TRY_VALUE(local, LocalRing::attach(link_.facts().segment_path, request.randoms_supplied));
        ring_ = local.get();
        place_ = std::move(local);
    }
    return true;
}

// The choice of an earlier client still stands in the segment of a resumed session.
shm::Result<bool> AttachedSession::choose_stream(bool over_zmq) {
    const bool streaming = ring_->header().zmq_stream.load(std::memory_order_acquire) != 0;
    if (streaming != over_zmq) {
        CROUPIER_TRY(link_.configure(over_zmq));
    }
    if (!over_zmq) return true;
    CROUPIER_TRY_VALUE(dealer, link_.connect());
    stream_ = std::make_unique<DecisionStream>(std::move(dealer), link_.facts().id, *ring_);
    messages_ = stream_.get();
    return true;
}

shm::Result<bool> AttachedSession::close() {
    const auto usable = place_ ? place_->check_usable() : true;
    if (!usable && usable.error().code == Errc::session_closed) return true;
    if (!usable && usable.error().code == Errc::stale_epoch) return usable.error();
    auto closed = link_.close();
    if (closed || !place_) return closed;
    // It may have ended meanwhile.
    const auto now = place_->check_usable();
    if (!now && now.error().code == Errc::session_closed) return true;
    return closed;
}

shm::Result<int> AttachedSession::event_descriptor() {
    if (relayed_ != nullptr) return relayed_->descriptor();
    // The ring's, also if decisions come over ZMQ: a stand-in sends none, and a message may be lost.
    if (signal_ == nullptr) {
        CROUPIER_TRY_VALUE(started, ring_->start_signal());
        signal_ = std::move(started);
    }
    return signal_->descriptor();
}

std::uint32_t AttachedSession::in_flight() const {
    return static_cast<std::uint32_t>(place_->next_to_publish() - place_->next_to_take());
}

shm::Result<bool> AttachedSession::begin_texts(text::TokenTable tokens) {
    texts_ = std::make_unique<SessionTexts>(std::move(tokens));
    CROUPIER_TRY_VALUE(all, place_->found_texts());
    for (const FoundText& found : all) {
        CROUPIER_TRY(texts_->recall(found));
    }
    return true;
}

shm::Result<bool> AttachedSession::add(const croupier_sequence& given) {
    CROUPIER_TRY_VALUE(known, known_sequence(given));
    const croupier_sequence& sequence = known.linked();
    if (texts_ == nullptr) {
        CROUPIER_TRY(check_stop_strings(sequence));
        return place_->add(sequence);
    }
    CROUPIER_TRY_VALUE(text, texts_->make(sequence));
    CROUPIER_TRY(place_->add(sequence));
    texts_->add(sequence.uid, std::move(text));
    return true;
}

shm::Result<bool> AttachedSession::fork(const shm::Fork& fork) {
    CROUPIER_TRY(place_->fork(fork));
    if (texts_ == nullptr) return true;
    CROUPIER_TRY_VALUE(output, place_->output(fork.uid));
    texts_->fork(fork, output);
    return true;
}

shm::Result<bool> AttachedSession::finish(std::uint64_t uid) {
    auto finished = place_->finish(uid);
    if (finished && texts_ != nullptr) texts_->finish(uid);
    return finished;
}

shm::Result<bool> AttachedSession::truncate(std::uint64_t uid, std::uint32_t outputs) {
    auto cut = place_->truncate(uid, outputs);
    if (!cut || texts_ == nullptr) return cut;
    CROUPIER_TRY_VALUE(output, place_->output(uid));
    texts_->truncate(uid, output);
    return cut;
}

shm::Result<const SessionTexts::Text*> AttachedSession::find_text(std::uint64_t uid) const {
    if (texts_ == nullptr) {
        return shm::fail(
            Errc::bad_argument,
            place_->geometry().token_table_bytes == 0
                ? "the session has no tokenizer, which its texts need: open it with the option tokenizer"
                : "this client keeps no texts: open the session with the option without_texts 0");
    }
    const SessionTexts::Text* const found = texts_->find(uid);
    if (found == nullptr) {
        return shm::fail(Errc::unknown_sequence, "sequence " + std::to_string(uid) +
                                                     " is not live in this session: its text went with it");
    }
    return found;
}

shm::Result<std::optional<text::FoundStop>> AttachedSession::stop(std::uint64_t uid) const {
    CROUPIER_TRY_VALUE(found, find_text(uid));
    return found->stop();
}

shm::Result<std::uint64_t> AttachedSession::text(std::uint64_t uid, std::uint64_t from,
                                                 std::span<char> to) const {
    CROUPIER_TRY_VALUE(found, find_text(uid));
    if (from > found->released()) {
        return shm::fail(Errc::bad_argument, "sequence " + std::to_string(uid) + " has " +
                                                 std::to_string(found->released()) +
                                                 " bytes of released text, from is " + std::to_string(from));
    }
    const std::uint64_t there = found->released() - from;
    found->copy(from, to.first(std::min<std::uint64_t>(to.size(), there)));
    return there;
}

shm::Result<bool> AttachedSession::append(std::uint64_t uid, std::span<const std::int32_t> tokens) {
    CROUPIER_TRY(place_->check_append(uid, tokens.size()));
    const std::uint32_t vocab = place_->geometry().vocab;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (proto::token_in_range(tokens[i], vocab)) continue;
        return shm::fail(Errc::bad_argument, "tokens[" + std::to_string(i) + "] is " +
                                                 std::to_string(tokens[i]) + "; allowed: 0 to " +
                                                 std::to_string(vocab - 1));
    }
    auto appended = place_->append(uid, tokens);
    if (appended && texts_ != nullptr) texts_->append(uid, tokens);
    return appended;
}

shm::Result<std::uint64_t> AttachedSession::submit(const croupier_column* columns, std::size_t count,
                                                   std::size_t size) {
    // Before the columns are read: a wrong number of them would be read from behind the array.
    if (const std::uint32_t most = place_->geometry().max_batch; count > most) {
        return shm::fail(Errc::bad_argument,
                         "the step has " + std::to_string(count) + " columns, the session was opened for " +
                             std::to_string(most) + " rows; open it with a larger max_batch");
    }
    CROUPIER_TRY_VALUE(asked, known_columns(columns, count, size, columns_));
    return place_->submit(asked);
}

}  // namespace croupier::client
