#include "daemon/control_server.h"

#include <spdlog/spdlog.h>

#include <iterator>
#include <vector>
#include <zmq_addon.hpp>

#include "shm/snapshot.h"

namespace croupier::daemon {

using flatbuffers::DetachedBuffer;
using flatbuffers::FlatBufferBuilder;

namespace {

// Requests answered in one go, so that a flood on this socket cannot starve the rest of the supervisor.
constexpr int kRequestsATurn = 64;

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
    request.takeover = open.takeover();
    request.resume = open.resume();
    return request;
}

DetachedBuffer answer_open(const ControlContext& context, std::uint64_t number, const wire::Open& open) {
    auto request = read_open(open);
    if (!request) return refusal(number, request.error());
    auto opened = context.registry->open(request.value());
    if (!opened) {
        spdlog::warn("refused to open session '{}': {}", request.value().name, opened.error().message);
        return refusal(number, opened.error());
    }
    FlatBufferBuilder builder;
    const shm::Segment& segment = *opened.value().segment;
    const auto body = wire::CreateSessionInfoDirect(
        builder, segment.header().session_id, segment.path().c_str(), context.shm_directory.c_str(),
        context.instance.c_str(), context.decisions_endpoint.c_str(), opened.value().resumed);
    return sealed(builder, number, body);
}

DetachedBuffer answer_close(const ControlContext& context, std::uint64_t number, const wire::Close& close) {
    auto closed = context.registry->close(close.session_id());
    if (!closed) return refusal(number, closed.error());
    FlatBufferBuilder builder;
    return sealed(builder, number, wire::CreateClosed(builder, close.session_id()));
}

DetachedBuffer answer_configure(const ControlContext& context, std::uint64_t number,
                                const wire::Configure& asked) {
    auto done = context.registry->set_zmq_stream(asked.session_id(), asked.decisions_over_zmq());
    if (!done) return refusal(number, done.error());
    FlatBufferBuilder builder;
    return sealed(builder, number, wire::CreateConfigured(builder, asked.session_id()));
}

DetachedBuffer answer_statistics(const ControlContext& context, std::uint64_t number) {
    auto snapshot = shm::observe(context.shm_directory, context.instance);
    if (!snapshot) return refusal(number, snapshot.error());
    FlatBufferBuilder builder;
    return sealed(builder, number,
                  wire::CreateStatisticsReplyDirect(builder, shm::to_json(snapshot.value()).c_str()));
}

DetachedBuffer answer_drain(const ControlContext& context, std::uint64_t number) {
    context.drain();
    FlatBufferBuilder builder;
    return sealed(builder, number,
                  wire::CreateDraining(builder, static_cast<std::uint32_t>(context.registry->count())));
}

}  // namespace

ControlServer::ControlServer(zmq::context_t& context, std::uint64_t max_message_bytes)
    : socket_(context, zmq::socket_type::router) {
    // A longer frame drops its peer's connection inside libzmq, before it is in memory.
    socket_.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(max_message_bytes));
}

void ControlServer::serve(const ControlContext& context) {
    for (int turn = 0; turn < kRequestsATurn; ++turn) {
        std::vector<zmq::message_t> frames;
        if (!zmq::recv_multipart(socket_, std::back_inserter(frames), zmq::recv_flags::dontwait)) return;
        DetachedBuffer reply;
        if (frames.size() == 2) {
            reply = answer(context, frames[1]);
        } else {
            ++refused_;
            reply = refusal(0, {shm::Errc::bad_argument,
                                "a request is one frame; this one had " + std::to_string(frames.size() - 1)});
        }
        // A peer that is gone by now, or does not read, loses its own answer only.
        socket_.send(frames[0], zmq::send_flags::sndmore | zmq::send_flags::dontwait);
        socket_.send(zmq::buffer(reply.data(), reply.size()), zmq::send_flags::dontwait);
    }
}

DetachedBuffer ControlServer::answer(const ControlContext& context, const zmq::message_t& request) {
    // Copied: libzmq may hand out a frame in the middle of its buffer, and a flatbuffer is read aligned.
    const auto* bytes = static_cast<const std::byte*>(request.data());
    const std::vector<std::byte> frame(bytes, bytes + request.size());
    const auto parsed = wire::parse(frame.data(), frame.size());
    if (const auto* fault = std::get_if<wire::WireFault>(&parsed)) {
        ++refused_;
        spdlog::warn("refused a message on the control socket: {}", fault->message);
        return refusal(0, {shm::Errc::bad_argument, fault->message});
    }
    const wire::Message& message = *std::get<const wire::Message*>(parsed);
    switch (message.body_type()) {
        case wire::Body::Open:
            return answer_open(context, message.request(), *message.body_as_Open());
        case wire::Body::Close:
            return answer_close(context, message.request(), *message.body_as_Close());
        case wire::Body::Configure:
            return answer_configure(context, message.request(), *message.body_as_Configure());
        case wire::Body::Drain:
            return answer_drain(context, message.request());
        case wire::Body::Statistics:
            return answer_statistics(context, message.request());
        default:
            break;
    }
    ++refused_;
    return refusal(
        message.request(),
        {shm::Errc::bad_argument, std::string("a ") + wire::EnumNameBody(message.body_type()) +
                                      " is no request; Open, Close, Configure, Drain and Statistics are"});
}

}  // namespace croupier::daemon
