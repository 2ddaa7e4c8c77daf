#include "daemon/control/decision_stream.h"

#include <array>
#include <iterator>
#include <vector>
#include <zmq_addon.hpp>

#include "daemon/control/endpoint.h"
#include "event_log/event_log.h"
#include "proto/wire.h"

namespace croupier::daemon {

using event_log::Event;

using proto::SessionCounter;

namespace {

constexpr int kSubscriptionsATurn = 64;

}  // namespace

DecisionStream::DecisionStream(zmq::context_t& context, std::uint32_t high_water_mark)
    : socket_(context, zmq::socket_type::router) {
    socket_.set(zmq::sockopt::sndhwm, static_cast<int>(high_water_mark));
    // Without it a full or vanished peer's message would be dropped in silence.
    socket_.set(zmq::sockopt::router_mandatory, true);
    socket_.set(zmq::sockopt::maxmsgsize, std::int64_t{4096});
    socket_.set(zmq::sockopt::rcvhwm, kUnreadMessages);
}

void DecisionStream::refuse(const zmq::message_t& peer, const shm::Error& why) {
    event_log::write(Event::message_refused, {{"socket", "decisions"}, {"error", shm::errc_name(why.code)}},
                     "refused a message on the decision socket: {}", why.message);
    flatbuffers::FlatBufferBuilder builder;
    const auto body =
        wire::CreateRefusalDirect(builder, static_cast<std::uint32_t>(why.code), why.message.c_str());
    wire::finish(builder, 0, body);
    try {
        const std::array<zmq::const_buffer, 2> frames = {
            zmq::buffer(peer.data(), peer.size()),
            zmq::buffer(builder.GetBufferPointer(), builder.GetSize())};
        zmq::send_multipart(socket_, frames, zmq::send_flags::dontwait);
    } catch (const zmq::error_t& gone) {
        event_log::write(Event::peer_unreachable, {{"socket", "decisions"}},
                         "a refused message's sender is gone: {}", gone.what());
    }
}

shm::Result<std::uint64_t> DecisionStream::read_subscription(zmq::message_t& frame,
                                                             const SessionRegistry& registry,
                                                             const Peer& peer) const {
    // Copied: libzmq may hand out a frame in the middle of its buffer, and a flatbuffer is read aligned.
    const std::string copy = frame.to_string();
    const auto parsed = wire::parse(copy.data(), copy.size());
    if (const auto* fault = std::get_if<wire::WireFault>(&parsed)) {
        return shm::fail(shm::Errc::bad_argument, fault->message);
    }
    const auto* subscribe = std::get<const wire::Message*>(parsed)->body_as_Subscribe();
    if (subscribe == nullptr) {
        return shm::fail(shm::Errc::bad_argument, "only Subscribe is understood here");
    }
    CROUPIER_TRY(registry.find_for(subscribe->session_id(), peer));
    return subscribe->session_id();
}

void DecisionStream::serve(const SessionRegistry& registry, const std::string& endpoint,
                           const Admitted& admitted) {
    for (int turn = 0; turn < kSubscriptionsATurn; ++turn) {
        std::vector<zmq::message_t> frames;
        if (!zmq::recv_multipart(socket_, std::back_inserter(frames), zmq::recv_flags::dontwait)) return;
        if (frames.size() != 2) {
            refuse(frames[0], {shm::Errc::bad_argument, "a subscription is one frame"});
            continue;
        }
        auto peer = peer_of(frames[1], endpoint);
        if (!peer || !admitted(peer.value())) {
            refuse(frames[0], peer ? shm::Error{shm::Errc::permission_denied,
                                                "the CURVE key is not among the authorized ones any more"}
                                   : peer.error());
            continue;
        }
        const auto session = read_subscription(frames[1], registry, peer.value());
        if (!session) {
            refuse(frames[0], session.error());
            continue;
        }
        subscribers_.insert_or_assign(session.value(),
                                      Subscriber{frames[0].to_string(), std::move(peer).value(),
                                                 shm::DecisionSender(*registry.find(session.value()))});
    }
}

void DecisionStream::drop_unadmitted(const Admitted& admitted) {
    std::erase_if(subscribers_, [&](const auto& entry) { return !admitted(entry.second.peer); });
}

void DecisionStream::send_completed(const SessionRegistry& registry) {
    std::erase_if(subscribers_, [&](const auto& entry) { return registry.find(entry.first) == nullptr; });
    flatbuffers::FlatBufferBuilder builder;
    for (auto& [id, subscriber] : subscribers_) {
        const shm::Segment& segment = *registry.find(id);
        while (subscriber.sender.pack(segment, 0, builder) && send(segment, subscriber.frame, builder)) {
            subscriber.sender.advance(segment);
        }
    }
}

bool DecisionStream::send(const shm::Segment& segment, const std::string& frame,
                          const flatbuffers::FlatBufferBuilder& builder) {
    try {
        const std::array<zmq::const_buffer, 2> frames = {
            zmq::buffer(frame), zmq::buffer(builder.GetBufferPointer(), builder.GetSize())};
        if (zmq::send_multipart(socket_, frames, zmq::send_flags::dontwait)) return true;
    } catch (const zmq::error_t& gone) {
        event_log::write(Event::peer_unreachable, {{"socket", "decisions"}, {"session_id", segment.id()}},
                         "the subscriber of session {} is not reachable: {}", segment.id(), gone.what());
    }
    segment.header().counter(SessionCounter::zmq_send_deferred).fetch_add(1, std::memory_order_relaxed);
    return false;
}

}  // namespace croupier::daemon
