#include "daemon/control/control_server.h"

#include <array>
#include <iterator>
#include <utility>
#include <zmq_addon.hpp>

#include "daemon/control/endpoint.h"
#include "event_log/event_log.h"
#include "shm/snapshot.h"

namespace croupier::daemon {

using event_log::Event;

using flatbuffers::DetachedBuffer;
using flatbuffers::FlatBufferBuilder;

namespace {

// Requests answered in one go, so that a flood on this socket cannot starve the rest of the supervisor.
constexpr int kRequestsATurn = 64;
constexpr std::size_t kMostStatistics = 256;

template <typename Table>
DetachedBuffer sealed(FlatBufferBuilder& builder, std::uint64_t request, flatbuffers::Offset<Table> body) {
    wire::finish(builder, request, body);
    return builder.Release();
}

DetachedBuffer refusal(std::uint64_t request, const shm::Error& error) {
    FlatBufferBuilder builder;
    const auto body =
        wire::CreateRefusalDirect(builder, static_cast<std::uint32_t>(error.code), error.message.c_str());
    return sealed(builder, request, body);
}

shm::Result<SessionRequest> read_open(const wire::Open& open) {
    SessionRequest request;
    request.name = open.name() != nullptr ? open.name()->str() : "";
    auto& geometry = request.geometry;
    geometry.vocab = open.vocab();
    geometry.tp = open.tp();
    geometry.max_batch = open.max_batch();
    geometry.max_windows = open.max_windows();
    geometry.slots = open.slots();
    geometry.dtype = static_cast<proto::Dtype>(open.dtype());
    geometry.tile = open.tile();
    geometry.max_sequences = open.max_sequences();
    geometry.max_length = open.max_length();
    geometry.max_bias = open.max_bias();
    geometry.max_stop_ids = open.max_stop_ids();
    geometry.max_list_tokens = open.max_list_tokens();
    geometry.mask_rows = open.mask_rows();
    geometry.has_summaries = open.summaries() ? 1 : 0;
    geometry.max_logprobs = open.max_logprobs();
    geometry.max_support = open.max_support();
    geometry.lean_blocks = open.lean_blocks();
    if (open.shards() == nullptr || open.shards()->size() == 0) {
        if (geometry.tp >= 1 && geometry.tp <= proto::kMaxTp) proto::fill_even_shards(geometry);
    } else if (open.shards()->size() != geometry.tp || geometry.tp > proto::kMaxTp) {
        return shm::fail(shm::Errc::bad_geometry, "the message has " + std::to_string(open.shards()->size()) +
                                                      " shards for tp " + std::to_string(geometry.tp));
    } else {
        for (std::uint32_t rank = 0; rank < geometry.tp; ++rank) {
            const auto* shard = open.shards()->Get(rank);
            geometry.shards[rank] = {shard->first_id(), shard->count()};
        }
    }
    if (open.order() != nullptr) request.order.assign(open.order()->begin(), open.order()->end());
    if (open.token_table() != nullptr) {
        const auto table = std::as_bytes(std::span(open.token_table()->data(), open.token_table()->size()));
        request.token_table.assign(table.begin(), table.end());
    }
    request.takeover = open.takeover();
    request.resume = open.resume();
    return request;
}

DetachedBuffer opened_reply(const ControlContext& context, std::uint64_t request,
                            const OpenedSession& opened) {
    FlatBufferBuilder builder;
    const shm::Segment& segment = *opened.segment;
    const auto body = wire::CreateSessionInfoDirect(builder, segment.id(), segment.path().c_str(),
                                                    context.shm_directory.c_str(), context.instance.c_str(),
                                                    opened.resumed);
    return sealed(builder, request, body);
}

DetachedBuffer answer_close(const ControlContext& context, const wire::Close& close, const Asker& asker) {
    auto closed = context.registry->close(close.session_id(), asker.peer);
    if (!closed) return refusal(asker.request, closed.error());
    FlatBufferBuilder builder;
    return sealed(builder, asker.request, wire::CreateClosed(builder, close.session_id()));
}

DetachedBuffer answer_drain(const ControlContext& context, const Asker& asker) {
    if (!asker.peer.trusted) {
        return refusal(
            asker.request,
            {shm::Errc::permission_denied,
             "Drain ends every session: it is for the daemon's own user and root, over ipc; this came "
             "from " +
                 asker.peer.identity});
    }
    context.drain();
    FlatBufferBuilder builder;
    return sealed(builder, asker.request,
                  wire::CreateDraining(builder, static_cast<std::uint32_t>(context.registry->count())));
}

// What this peer may know: of others' sessions neither the name of the file nor the id, which is in it.
shm::Snapshot shown_to(const Peer& peer, shm::Snapshot snapshot, const SessionRegistry& registry) {
    for (auto& session : snapshot.sessions) {
        if (!peer.trusted && !registry.find_for(session.id, peer)) shm::hide_from_others(session);
    }
    return snapshot;
}

}  // namespace

ControlServer::ControlServer(zmq::context_t& context, std::uint64_t max_message_bytes)
    : socket_(context, zmq::socket_type::router) {
    // A longer frame drops its peer's connection inside libzmq, before it is in memory.
    socket_.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(max_message_bytes));
    socket_.set(zmq::sockopt::rcvhwm, kUnreadMessages);
    // Answers that one peer has not read. More are dropped, and decided steps stay in the ring.
    socket_.set(zmq::sockopt::sndhwm, kUnreadMessages);
    // Without it, libzmq silently drops a message to a peer whose queue is full.
    socket_.set(zmq::sockopt::router_mandatory, true);
}

ControlServer::Reply ControlServer::answer_open(const ControlContext& context, const wire::Open& open,
                                                const Asker& asker) {
    auto request = read_open(open);
    if (!request) return refusal(asker.request, request.error());
    request.value().peer = asker.peer;
    const std::string name = request.value().name;
    auto opened = context.registry->open(std::move(request).value(), asker);
    if (!opened) {
        event_log::write(Event::open_refused,
                         {{"session", name},
                          {"peer", asker.peer.identity},
                          {"error", shm::errc_name(opened.error().code)}},
                         "refused to open a session for {}: {}", asker.peer.identity, opened.error().message);
        return refusal(asker.request, opened.error());
    }
    if (!opened.value()) return std::nullopt;
    return opened_reply(context, asker.request, *opened.value());
}

ControlServer::Reply ControlServer::answer_configure(const ControlContext& context,
                                                     const wire::Configure& asked, const Asker& asker) {
    const std::uint64_t id = asked.session_id();
    auto done = context.registry->set_zmq_stream(id, asked.decisions_over_zmq(), asker.peer);
    if (!done) return refusal(asker.request, done.error());
    if (asked.decisions_over_zmq()) {
        decisions_.subscribe(*context.registry->find(id), asker);
    } else {
        decisions_.unsubscribe(id);
    }
    FlatBufferBuilder builder;
    return sealed(builder, asker.request, wire::CreateConfigured(builder, id));
}

ControlServer::Reply ControlServer::answer_statistics(const ControlContext& context, Asker asker) {
    if (asked_meanwhile_.size() >= kMostStatistics) {
        return refusal(asker.request, {shm::Errc::refused, std::to_string(kMostStatistics) +
                                                               " others wait for statistics already: ask "
                                                               "again in a moment"});
    }
    // A snapshot that began before the question may lack what its asker has just done.
    asked_meanwhile_.push_back(std::move(asker));
    if (!context.statistics->busy()) {
        ask_statistics_.swap(asked_meanwhile_);
        context.statistics->begin();
    }
    return std::nullopt;
}

void ControlServer::answer_late(const ControlContext& context) {
    for (const OpenAnswer& made : context.registry->take_made()) {
        const Asker& asker = made.asker;
        if (!made.opened) {
            event_log::write(
                Event::open_failed,
                {{"peer", asker.peer.identity}, {"error", shm::errc_name(made.opened.error().code)}},
                "a session was not opened: {}", made.opened.error().message);
        }
        const DetachedBuffer reply = made.opened ? opened_reply(context, asker.request, made.opened.value())
                                                 : refusal(asker.request, made.opened.error());
        send(asker.frame, {reply.data(), reply.size()});
    }
    auto snapshot = context.statistics->take();
    if (!snapshot) return;
    for (const Asker& asker : ask_statistics_) {
        FlatBufferBuilder builder;
        DetachedBuffer reply;
        if (*snapshot) {
            const std::string json = shm::to_json(shown_to(asker.peer, snapshot->value(), *context.registry));
            reply = sealed(builder, asker.request, wire::CreateStatisticsReplyDirect(builder, json.c_str()));
        } else {
            reply = refusal(asker.request, snapshot->error());
        }
        send(asker.frame, {reply.data(), reply.size()});
    }
    ask_statistics_.clear();
    ask_statistics_.swap(asked_meanwhile_);
    if (!ask_statistics_.empty()) context.statistics->begin();
}

bool ControlServer::send(const std::string& frame, zmq::message_t message) {
    try {
        std::array<zmq::message_t, 2> frames = {zmq::message_t(frame.data(), frame.size()),
                                                std::move(message)};
        return zmq::send_multipart(socket_, frames, zmq::send_flags::dontwait).has_value();
    } catch (const zmq::error_t& gone) {
        event_log::write(Event::peer_unreachable, {{"socket", "control"}},
                         "the receiver of an answer is gone: {}", gone.what());
    }
    return false;
}

void ControlServer::serve(const ControlContext& context) {
    answer_late(context);
    answer_waiting(context);
    decisions_.send_decided(*context.registry, [this](const std::string& frame, zmq::message_t step) {
        return send(frame, std::move(step));
    });
}

void ControlServer::answer_waiting(const ControlContext& context) {
    for (int turn = 0; turn < kRequestsATurn; ++turn) {
        std::vector<zmq::message_t> frames;
        if (!zmq::recv_multipart(socket_, std::back_inserter(frames), zmq::recv_flags::dontwait)) return;
        if (auto reply = answer(context, frames)) send(frames[0].to_string(), {reply->data(), reply->size()});
    }
}

ControlServer::Reply ControlServer::answer(const ControlContext& context,
                                           std::vector<zmq::message_t>& frames) {
    if (frames.size() != 2) {
        return refusal(0, {shm::Errc::bad_argument,
                           "a request is one frame; this one had " + std::to_string(frames.size() - 1)});
    }
    auto peer = peer_of(frames[1], context.endpoint);
    if (!peer) return refusal(0, peer.error());
    // Copied: libzmq may hand out a frame in the middle of its buffer, and a flatbuffer is read aligned.
    const auto* bytes = static_cast<const std::byte*>(frames[1].data());
    const std::vector<std::byte> frame(bytes, bytes + frames[1].size());
    const auto parsed = wire::parse(frame.data(), frame.size());
    if (const auto* fault = std::get_if<wire::WireFault>(&parsed)) {
        event_log::write(Event::message_refused, {{"socket", "control"}, {"peer", peer.value().identity}},
                         "refused a message on the control socket: {}", fault->message);
        return refusal(0, {shm::Errc::bad_argument, fault->message});
    }
    const wire::Message& message = *std::get<const wire::Message*>(parsed);
    if (!context.admitted(peer.value())) {
        return refusal(message.request(), {shm::Errc::permission_denied,
                                           "the CURVE key is not among the authorized ones any more"});
    }
    return answer_body(context, message, {frames[0].to_string(), message.request(), std::move(peer).value()});
}

ControlServer::Reply ControlServer::answer_body(const ControlContext& context, const wire::Message& message,
                                                Asker asker) {
    switch (message.body_type()) {
        case wire::Body::Open:
            return answer_open(context, *message.body_as_Open(), asker);
        case wire::Body::Close:
            return answer_close(context, *message.body_as_Close(), asker);
        case wire::Body::Configure:
            return answer_configure(context, *message.body_as_Configure(), asker);
        case wire::Body::Drain:
            return answer_drain(context, asker);
        case wire::Body::Statistics:
            return answer_statistics(context, std::move(asker));
        default:
            break;
    }
    return refusal(
        message.request(),
        {shm::Errc::bad_argument, std::string("a ") + wire::EnumNameBody(message.body_type()) +
                                      " is no request; Open, Close, Configure, Drain and Statistics are"});
}

}  // namespace croupier::daemon
